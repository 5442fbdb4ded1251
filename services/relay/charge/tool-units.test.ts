import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { emptyTally } from "../dialects/dialect.ts";
import { meterCall } from "./meter.ts";
import { modelOf } from "../testing/fakes.ts";
import { asPricedTools } from "./tool-units.ts";
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
