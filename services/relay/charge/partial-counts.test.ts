import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { emptyTally, type Tally, type UpstreamDialectName } from "../dialects/dialect.ts";
import { upstreamDialects } from "../dialects/conversions.ts";
import { envelopeOf, tallyReaderOf } from "../dialects/testing/reading.ts";
import type { RequestFacts } from "../live-call.ts";
import { meterCall, usageOf } from "./meter.ts";
import { boundTally } from "./possible-usage.ts";

// Providers and compatible servers that tell the one count and not the other. A whole answer is not free for it.

const text = "Hello to all of you who have come from so far away to hear me say so.";
const asked: RequestFacts = { inputTokens: 40, units: {}, priceFields: {} };
const prices: Units = { inputTokens: 1n, cacheReadTokens: 1n, outputTokens: 1n, reasoningTokens: 1n };

const chat = (usage: object, content = text) => ({
  choices: [{ index: 0, message: { content }, finish_reason: "stop" }],
  usage,
});
const response = (usage: object, said = text) => ({
  status: "completed",
  output: [{ type: "message", content: [{ type: "output_text", text: said }] }],
  usage,
});
const message = (usage: object, said = text) => ({
  content: [{ type: "text", text: said }],
  stop_reason: "end_turn",
  usage,
});
const gemini = (usageMetadata: object, said = text) => ({
  candidates: [{ content: { parts: [{ text: said }] }, finishReason: "STOP" }],
  usageMetadata,
});

type Row = [what: string, dialect: UpstreamDialectName, answer: object, input: bigint, source: UsageSource];

const { PROVIDER_INPUT, ESTIMATED } = UsageSource;
const rows: Row[] = [
  ["no output", "openai-chat", chat({ prompt_tokens: 100 }), 100n, PROVIDER_INPUT],
  ["null for the output", "openai-chat", chat({ prompt_tokens: 100, completion_tokens: null }), 100n, PROVIDER_INPUT],
  ["a total only", "openai-chat", chat({ total_tokens: 120 }), 40n, ESTIMATED],
  ["a cost only", "openai-chat", chat({ cost: 0.1 }), 40n, ESTIMATED],
  ["names of another format", "openai-chat", chat({ input_tokens: 100, output_tokens: 20 }), 40n, ESTIMATED],
  ["no output", "openai-responses", response({ input_tokens: 100 }), 100n, PROVIDER_INPUT],
  ["a total only", "openai-responses", response({ total_tokens: 120 }), 40n, ESTIMATED],
  ["no output", "anthropic-messages", message({ input_tokens: 100 }), 100n, PROVIDER_INPUT],
  ["no output", "gemini-generate", gemini({ promptTokenCount: 100, totalTokenCount: 100 }), 100n, PROVIDER_INPUT],
  ["no output, no total", "gemini-generate", gemini({ promptTokenCount: 100 }), 100n, PROVIDER_INPUT],
  ["a total only", "gemini-generate", gemini({ totalTokenCount: 120 }), 40n, ESTIMATED],
];

/** The answer as it is charged. */
function readTally(dialect: UpstreamDialectName, answer: object): Tally {
  const tally = tallyReaderOf(dialect)(answer);
  assert.ok(tally);
  boundTally(tally, { contextTokens: 100_000, maxOutputTokens: 10_000 });
  return tally;
}

for (const [what, dialect, answer, input, source] of rows) {
  test(`${dialect} tells ${what}: the rest is counted from what was sent`, () => {
    const tally = readTally(dialect, answer);
    const charged = meterCall(tally, "whole", asked, prices);
    assert.equal(charged.source, source);
    assert.equal(charged.usage.inputTokens, input);
    const told = (charged.usage.outputTokens ?? 0n) + (charged.usage.reasoningTokens ?? 0n);
    assert.ok(told >= BigInt(Math.ceil(tally.contentTokens)) && tally.contentTokens > 10, `${told} of output`);
    const shown = usageOf(tally, asked);
    if (shown) assert.equal(shown.inputTokens, input, "what its caller is shown");
  });
}

test("output without input: what was asked is counted", () => {
  const all: [UpstreamDialectName, object][] = [
    ["openai-chat", chat({ completion_tokens: 500 })],
    ["openai-responses", response({ output_tokens: 500 })],
    ["anthropic-messages", message({ output_tokens: 500 })],
    ["gemini-generate", gemini({ candidatesTokenCount: 500 })],
  ];
  for (const [dialect, answer] of all) {
    const { usage, source } = meterCall(readTally(dialect, answer), "whole", asked, prices);
    assert.deepEqual([usage.inputTokens, usage.outputTokens, source], [40n, 500n, ESTIMATED], dialect);
  }
});

test("an answer without content and output costs the input that was told", () => {
  const blocked = { promptFeedback: { blockReason: "SAFETY" }, usageMetadata: { promptTokenCount: 100 } };
  const { usage, source } = meterCall(readTally("gemini-generate", blocked), "whole", asked, prices);
  assert.deepEqual([usage.inputTokens, usage.outputTokens, source], [100n, 0n, UsageSource.PROVIDER]);
});

test("whole counts in place of a part, or behind it, are charged as they are", () => {
  const tally = emptyTally();
  const tap = upstreamDialects["openai-chat"].createTap(envelopeOf(), (error) => error);
  const send = (json: object) => tap.read({ data: JSON.stringify(json), json }, tally);
  send({ choices: [{ index: 0, delta: { content: text } }], usage: { prompt_tokens: 100 } });
  assert.equal(meterCall(tally, "cut", asked, prices).source, PROVIDER_INPUT);
  send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  send({ choices: [], usage: { prompt_tokens: 101, completion_tokens: 7, total_tokens: 108 } });
  const { usage, source } = meterCall(tally, "whole", asked, prices);
  assert.deepEqual([usage.inputTokens, usage.outputTokens, source], [101n, 7n, UsageSource.PROVIDER]);
});
