import assert from "node:assert/strict";
import { test } from "node:test";
import { readUsage as ofMessages } from "./anthropic-messages/usage.ts";
import { noCounts } from "./dialect.ts";
import { readUsage as ofGemini } from "./gemini-generate/usage.ts";
import { readUsage as ofImages } from "./openai-images/usage.ts";
import { readUsage as ofResponses } from "./openai-responses/usage.ts";
import { readUsage as ofTranscriptions } from "./openai-transcriptions/usage.ts";
import { readUsage as ofChat } from "./openai-shared/usage.ts";

const noNumbers = [-5, 12.5, "12", "NaN", 1e308, Infinity, 2 ** 53, true, {}, []];

const told: [string, (usage: unknown) => unknown, (count: unknown) => object][] = [
  ["openai-chat", ofChat, (count) => ({ prompt_tokens: 12, completion_tokens: count })],
  ["openai-responses", ofResponses, (count) => ({ input_tokens: count, output_tokens: 12 })],
  ["anthropic-messages", ofMessages, (count) => ({ input_tokens: 12, output_tokens: count })],
  ["gemini-generate", ofGemini, (count) => ({ promptTokenCount: 12, candidatesTokenCount: count })],
  ["openai-images", ofImages, (count) => ({ input_tokens: 12, output_tokens: count })],
  ["openai-transcriptions", ofTranscriptions, (count) => ({ input_tokens: 12, output_tokens: count })],
];

for (const [dialect, read, usageWith] of told) {
  test(`${dialect}: a count that is none spoils the others; one that is missing or null does not`, () => {
    for (const count of noNumbers) assert.equal(read(usageWith(count)), noCounts, JSON.stringify(count));
    for (const count of [undefined, null, 0, 7]) assert.notEqual(read(usageWith(count)), noCounts);
  });
}

test("a length of sound that is no number that can be is not told", () => {
  for (const seconds of [1e305, 1e308, -1, "many"]) {
    assert.equal(ofTranscriptions({ type: "duration", seconds }), undefined);
  }
});
