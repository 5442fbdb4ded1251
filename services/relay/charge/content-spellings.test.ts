import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { emptyTally, type Tally, type UpstreamDialectName } from "../dialects/dialect.ts";
import { upstreamDialects } from "../dialects/conversions.ts";
import { envelopeOf, tallyReaderOf } from "../dialects/testing/reading.ts";
import { meterCall } from "./meter.ts";

// Content by other names than OpenAI's passes to callers of the same format: without counts it is counted as any is.

const requested = { inputTokens: 40, units: {}, priceFields: {} };
const prices: Units = { inputTokens: 1n, outputTokens: 1n, imageOutputTokens: 1n };
const text = "Hello to all of you who have come from so far away";

function cutTally(dialect: UpstreamDialectName, choices: object[]): Tally {
  const tally = emptyTally();
  const tap = upstreamDialects[dialect].createTap(envelopeOf(), (error) => error);
  for (const choice of choices) {
    const json = { choices: [{ index: 0, ...choice }] };
    tap.read({ data: JSON.stringify(json), json }, tally);
  }
  return tally;
}

const chargedFor = (tally: Tally, ending: "cut" | "whole" = "cut"): Units => {
  const { usage, source } = meterCall(tally, ending, requested, prices);
  assert.equal(source, UsageSource.ESTIMATED);
  return usage;
};
const plain = chargedFor(cutTally("openai-chat", [{ delta: { content: text } }]));

const spellings: Record<string, object> = {
  thinking: { thinking: text },
  "thinking of Copilot": { reasoning_text: text },
  "reasoning as an object": { reasoning: { content: text } },
  "content as an object": { content: { type: "text", text } },
  "a list of texts": { content: [text] },
  "parts with content": { content: [{ type: "text", content: text }] },
  "thinking as one text": { content: [{ type: "thinking", thinking: text }] },
};
for (const [what, message] of Object.entries(spellings)) {
  test(`chat, ${what}: as much as plain text, cut and whole`, () => {
    assert.deepEqual(chargedFor(cutTally("openai-chat", [{ delta: message }])), plain);
    const whole = tallyReaderOf("openai-chat")({ choices: [{ message }] });
    assert.ok(whole);
    assert.deepEqual(chargedFor(whole, "whole"), plain);
  });
}

test("a stream of whole messages is counted, and a message behind deltas says the same again", () => {
  assert.deepEqual(chargedFor(cutTally("openai-chat", [{ message: { content: text } }])), plain);
  assert.deepEqual(chargedFor(cutTally("openai-chat", [{ text }])), plain);
  const twice = [{ delta: { content: text } }, { message: { content: text } }, { finish_reason: "stop", text }];
  assert.deepEqual(chargedFor(cutTally("openai-chat", twice)), plain);
});

test("pictures by an address alone, and by their bytes", () => {
  for (const image of ["https://a.example/b.png", { url: "https://a.example/b.png" }, { b64_json: "AAAA" }]) {
    assert.equal(chargedFor(cutTally("openai-chat", [{ delta: { images: [image] } }])).imageOutputTokens, 1_290n);
  }
});

test("older completions with the chunks of chat, and with thinking beside the text", () => {
  for (const choice of [{ delta: { content: text } }, { text: "", reasoning: text }, { reasoning_content: text }]) {
    assert.deepEqual(chargedFor(cutTally("openai-completions", [choice])), plain);
  }
});

test("a chunk that says who speaks, or why it ended, is no content", () => {
  const silent = [
    { delta: { role: "assistant", content: "", channel: "final" } },
    { delta: {}, finish_reason: "stop" },
  ];
  const { source } = meterCall(cutTally("openai-chat", silent), "cut", requested, prices);
  assert.equal(source, UsageSource.NONE);
});
