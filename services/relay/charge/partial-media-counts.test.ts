import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import { upstreamDialects } from "../dialects/conversions.ts";
import { emptyTally, type Tally, type UpstreamDialectName } from "../dialects/dialect.ts";
import { envelopeOf, tallyReaderOf } from "../dialects/testing/reading.ts";
import type { RequestFacts } from "../live-call.ts";
import { meterCall } from "./meter.ts";

// Counts of answers that are pictures, sound, transcripts or vectors, by names of other formats or of one side alone.
// A side that nobody told is not free.

const { PROVIDER, PROVIDER_INPUT, ESTIMATED } = UsageSource;
const prices: Units = {
  inputTokens: 1n,
  audioInputTokens: 2n,
  outputTokens: 3n,
  audioOutputTokens: 4n,
  imageOutputTokens: 5n,
};

type Row = [what: string, usage: object, charged: Units, source: UsageSource];

const pictures: RequestFacts = { inputTokens: 40, units: { images: 1n, imageOutputTokens: 6_240n }, priceFields: {} };
const ofPictures: Row[] = [
  ["both sides", { input_tokens: 9, output_tokens: 300 }, { inputTokens: 9n, imageOutputTokens: 300n }, PROVIDER],
  ["0 of both", { input_tokens: 0, output_tokens: 0 }, {}, PROVIDER],
  [
    "the names of chat (OpenRouter)",
    { prompt_tokens: 9, completion_tokens: 1_290, total_tokens: 1_299, cost: 0.04 },
    { inputTokens: 9n, imageOutputTokens: 1_290n },
    PROVIDER,
  ],
  [
    "the names of chat, and what the output is",
    { prompt_tokens: 9, completion_tokens: 1_300, completion_tokens_details: { image_tokens: 1_290 } },
    { inputTokens: 9n, outputTokens: 10n, imageOutputTokens: 1_290n },
    PROVIDER,
  ],
  ["a cost alone (xAI)", { cost_in_usd_ticks: 7 }, { inputTokens: 40n, imageOutputTokens: 6_240n }, ESTIMATED],
  ["a total alone", { total_tokens: 309 }, { inputTokens: 40n, imageOutputTokens: 6_240n }, ESTIMATED],
  ["no output", { input_tokens: 9 }, { inputTokens: 9n, imageOutputTokens: 6_240n }, PROVIDER_INPUT],
  [
    "no input (Volcengine)",
    { generated_images: 1, output_tokens: 300, total_tokens: 300 },
    { inputTokens: 40n, imageOutputTokens: 300n },
    ESTIMATED,
  ],
];

const vectors: RequestFacts = { inputTokens: 40, units: {}, priceFields: {} };
const ofVectors: Row[] = [
  ["a total alone (Voyage)", { total_tokens: 7 }, { inputTokens: 7n }, PROVIDER],
  ["the newer name", { input_tokens: 7, total_tokens: 7 }, { inputTokens: 7n }, PROVIDER],
  ["nothing", {}, { inputTokens: 40n }, ESTIMATED],
];

const heard: RequestFacts = { inputTokens: 40, units: { mediaMs: 500n, audioInputTokens: 50n }, priceFields: {} };
const ofTranscripts: Row[] = [
  [
    "no output",
    { type: "tokens", input_tokens: 30, input_token_details: { audio_tokens: 26 } },
    { inputTokens: 4n, audioInputTokens: 26n, outputTokens: 1n },
    PROVIDER_INPUT,
  ],
];

const spoken: RequestFacts = { inputTokens: 40, units: { characters: 9n, audioOutputTokens: 14n }, priceFields: {} };
const ofSpeech: Row[] = [
  ["both sides", { input_tokens: 9, output_tokens: 90 }, { inputTokens: 9n, audioOutputTokens: 90n }, PROVIDER],
  ["no output", { input_tokens: 9, total_tokens: 99 }, { inputTokens: 9n, audioOutputTokens: 14n }, PROVIDER_INPUT],
  ["no input", { output_tokens: 90 }, { inputTokens: 40n, audioOutputTokens: 90n }, ESTIMATED],
];

/** The answer as it is charged: whole, or as the last event of a stream. */
function readTally(dialect: UpstreamDialectName, answer: object, isEvent = false): Tally {
  if (!isEvent) return tallyReaderOf(dialect)(answer) ?? emptyTally();
  const tally = emptyTally();
  const envelope = { ...envelopeOf(), answer: "events" as const };
  const tap = upstreamDialects[dialect].createTap(envelope, (error) => error);
  const delta = { type: "speech.audio.delta", audio: "UklGRg==" };
  for (const json of [delta, answer]) tap.read({ data: JSON.stringify(json), json }, tally);
  return tally;
}

function check(what: string, tally: Tally, requested: RequestFacts, [charged, source]: [Units, UsageSource]): void {
  test(`${what}: nothing that was served is free`, () => {
    const reading = meterCall(tally, "whole", requested, prices);
    const units = Object.fromEntries(Object.entries(reading.usage).filter(([, count]) => count > 0n));
    assert.deepEqual(units, charged);
    assert.equal(reading.source, source);
  });
}

for (const [what, usage, ...expected] of ofPictures) {
  const whole = readTally("openai-images", { created: 1, data: [{ b64_json: "AAAA" }], usage });
  check(`a picture whose provider tells ${what}`, whole, pictures, expected);
  const event = readTally("openai-images", { type: "image_generation.completed", b64_json: "AAAA", usage }, true);
  check(`a streamed picture whose provider tells ${what}`, event, pictures, expected);
}
for (const [what, usage, ...expected] of ofVectors) {
  const answer = { data: [{ index: 0, embedding: [1] }], usage };
  check(`a vector whose provider tells ${what}`, readTally("openai-embeddings", answer), vectors, expected);
}
for (const [what, usage, ...expected] of ofTranscripts) {
  check(
    `a transcript whose provider tells ${what}`,
    readTally("openai-transcriptions", { text: "hi", usage }),
    heard,
    expected,
  );
}
for (const [what, usage, ...expected] of ofSpeech) {
  const answer = { type: "speech.audio.done", usage };
  check(`speech whose provider tells ${what}`, readTally("openai-speech", answer, true), spoken, expected);
}
