import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { type DialectName, emptyTally } from "../dialects/dialect.ts";
import { estimateNanos, meterCall } from "./meter.ts";
import { envelopeOf, modelOf } from "../testing/fakes.ts";
import { asPricedTools, heldTools } from "./tool-units.ts";
import { unpricedUnits } from "./unpriced.ts";

const text: Units = { inputTokens: 1n, outputTokens: 1n };
const used: Units = { inputTokens: 5n, outputTokens: 2n, webSearches: 2n, webFetches: 1n };
const requested = { inputTokens: 9, units: {}, priceFields: {} };
const chargeOf = (usage: Units, prices: Units): Units => {
  const tally = { ...emptyTally(), hasContent: true, hasFinish: true, isComplete: true, usage };
  const { usage: charged, source } = meterCall(tally, "whole", requested, prices);
  assert.equal(source, UsageSource.PROVIDER);
  return charged;
};

test("each tool of a provider is charged in its own bucket where that has a price", () => {
  const prices = { ...text, toolCalls: 1n, webSearches: 1n, webFetches: 1n };
  assert.deepEqual(chargeOf(used, prices), used);
});

test("a tool without a price of its own is charged as a tool call, as by catalogs from before the tools were told apart", () => {
  assert.deepEqual(chargeOf(used, { ...text, toolCalls: 1n }), { inputTokens: 5n, outputTokens: 2n, toolCalls: 2n });
  assert.deepEqual(chargeOf({ ...used, toolCalls: 4n }, { ...text, toolCalls: 1n, webSearches: 1n }), {
    inputTokens: 5n,
    outputTokens: 2n,
    webSearches: 2n,
    toolCalls: 4n,
  });
});

test("a tool of which no price speaks at all is an alarm", () => {
  assert.deepEqual(unpricedUnits(modelOf({ dialects: new Set(["anthropic-messages"]), prices: text }), used), [
    ["toolCalls", 2n],
  ]);
});

test("what was not used is neither", () => {
  const none: Units = { inputTokens: 5n, webSearches: 0n, webFetches: 0n };
  assert.equal(asPricedTools(none, text), none);
  assert.deepEqual(unpricedUnits(modelOf({ dialects: new Set(["anthropic-messages"]), prices: text }), none), []);
});

const searching = { input: "x", tools: [{ type: "web_search" }] };
const searchPrice = { inputTokens: 1n, webSearches: 10_000_000_000n };

test("the hold covers the runs of tools that a request allows, ten where it sets no limit", () => {
  const held = (fields: object, dialect: DialectName = "openai-responses", prices: Units = searchPrice) =>
    heldTools(envelopeOf(fields, dialect), prices);
  assert.deepEqual(held(searching), { webSearches: 10n });
  assert.deepEqual(held({ ...searching, max_tool_calls: 25 }), { webSearches: 25n });
  assert.deepEqual(held({ ...searching, max_tool_calls: 1e9 }), { webSearches: 1_000n });
  assert.deepEqual(held({ input: "x", tools: [{ type: "function", name: "f" }] }), {});
  assert.deepEqual(
    held(searching, "openai-responses", { inputTokens: 1n }),
    {},
    "refused elsewhere, or the operator's",
  );
  const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }];
  assert.deepEqual(held({ max_tokens: 1, tools }, "anthropic-messages"), { webSearches: 3n });
  const alike = held(searching, "openai-responses", { toolCalls: 5n });
  assert.deepEqual([alike.webSearches, alike.toolCalls], [0n, 10n]);
  const model = modelOf({ prices: searchPrice });
  const [plain, more] = [{ input: "x" }, searching].map((fields) =>
    estimateNanos(envelopeOf(fields, "openai-responses"), model),
  );
  assert.ok((more ?? 0n) - (plain ?? 0n) >= 100_000n);
});
