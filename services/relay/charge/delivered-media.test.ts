import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { meterCall } from "./meter.ts";
import { upstreamDialects } from "../dialects/conversions.ts";
import { emptyTally, type Tally, type UpstreamDialectName } from "../dialects/dialect.ts";
import { envelopeOf } from "../dialects/testing/reading.ts";

// Sound and pictures of a stream that was cut before its counts came: nobody hears or sees them for nothing.

const requested = { inputTokens: 40, units: {}, priceFields: {} };
const ownPrices: Units = { inputTokens: 1n, outputTokens: 1n, audioOutputTokens: 8n, imageOutputTokens: 4n };
const textPrices: Units = { inputTokens: 1n, outputTokens: 1n };

function tallyOf(dialect: UpstreamDialectName, events: object[]): Tally {
  const tally = emptyTally();
  const tap = upstreamDialects[dialect].createTap(envelopeOf(), (error) => error);
  for (const json of events) tap.read({ data: JSON.stringify(json), json }, tally);
  return tally;
}

const outputOf = (tally: Tally, prices: Units): Units => {
  const { usage, source } = meterCall(tally, "cut", requested, prices);
  assert.equal(source, UsageSource.ESTIMATED);
  return usage;
};

const chat = (delta: object) => ({ choices: [{ index: 0, delta }] });
// A second is 48,000 bytes, and 20 tokens.
const second = Buffer.alloc(48_000).toString("base64");
const sound = [chat({ audio: { id: "a", data: second } }), chat({ audio: { data: second } })];
const picture = chat({ images: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] });
const inline = (mimeType: string, data: string) => ({
  candidates: [{ index: 0, content: { parts: [{ inlineData: { mimeType, data } }] } }],
});

type Row = [what: string, dialect: UpstreamDialectName, events: object[], bucket: keyof Units, tokens: bigint];

const rows: Row[] = [
  ["two seconds of sound", "openai-chat", sound, "audioOutputTokens", 40n],
  ["two pictures", "openai-chat", [picture, picture], "imageOutputTokens", 2_580n],
  ["a second of sound", "gemini-generate", [inline("audio/L16;rate=24000", second)], "audioOutputTokens", 20n],
  ["a picture", "gemini-generate", [inline("image/png", "AAAA")], "imageOutputTokens", 1_290n],
];

for (const [what, dialect, events, bucket, tokens] of rows) {
  test(`${dialect}: ${what} of a cut stream are charged, by a price of their own or as output`, () => {
    const tally = tallyOf(dialect, events);
    assert.equal(outputOf(tally, ownPrices)[bucket], tokens);
    assert.equal(outputOf(tally, textPrices).outputTokens, tokens);
  });
}

test("counts that the provider tells afterwards stand for sound and pictures as well", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 50, completion_tokens_details: { audio_tokens: 41 } };
  const tally = tallyOf("openai-chat", [...sound, picture, { choices: [], usage }]);
  const { usage: charged } = meterCall(tally, "whole", requested, ownPrices);
  assert.deepEqual(
    [charged.inputTokens, charged.outputTokens, charged.audioOutputTokens, charged.imageOutputTokens],
    [9n, 9n, 41n, undefined],
  );
});

test("a picture behind running counts is charged beside them", () => {
  const [first, second] = [inline("image/png", "AAAA"), inline("image/png", "AAAA")];
  const counts = { promptTokenCount: 9, candidatesTokenCount: 1_290, totalTokenCount: 1_299 };
  const tally = tallyOf("gemini-generate", [{ ...first, usageMetadata: counts }, second]);
  const { usage } = meterCall(tally, "cut", requested, ownPrices);
  assert.deepEqual([usage.outputTokens, usage.imageOutputTokens], [1_290n, 1_290n]);
});
