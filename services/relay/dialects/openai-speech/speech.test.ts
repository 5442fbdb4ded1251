import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally, RequestError, type Envelope } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readEnvelope } from "./request.ts";
import { streamBytes, readStreamEvent } from "../sse.ts";
import { dialects } from "../index.ts";

const { createTap } = dialects["openai-speech"];

const withFields = (fields: object): Envelope =>
  readEnvelope(readJsonBody(Buffer.from(JSON.stringify({ model: "m", voice: "v", ...fields }))), "m");

test("characters are code points of the input", () => {
  assert.equal(withFields({ input: "hello" }).units.characters, 5n);
  assert.equal(withFields({ input: "é漢😀" }).units.characters, 3n);
  assert.throws(() => withFields({ input: ["hello"] }), RequestError);
});

test("sound comes as bytes unless events are asked for", () => {
  assert.equal(withFields({ input: "x" }).answer, "bytes");
  assert.equal(withFields({ input: "x", stream_format: "audio" }).answer, "bytes");
  assert.equal(withFields({ input: "x", stream_format: "sse" }).answer, "events");
});

test("any bytes of sound are content", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ input: "x" }), (error) => error);
  assert.equal(tally.hasContent, false);
  assert.equal(tap.read(streamBytes(Buffer.alloc(9)), tally), "pass");
  assert.ok(tally.hasContent && tally.hasFinish);
});

test("streamed sound is whole at speech.audio.done, with the provider's tokens", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ input: "x", stream_format: "sse" }), (error) => error);
  tap.read(readStreamEvent(Buffer.from('data: {"type":"speech.audio.delta","audio":"UklGRg=="}\n\n')), tally);
  assert.ok(tally.hasContent && !tally.isComplete);
  const usage = { input_tokens: 4, output_tokens: 90, total_tokens: 94 };
  tap.read(readStreamEvent(Buffer.from(`data: ${JSON.stringify({ type: "speech.audio.done", usage })}\n\n`)), tally);
  assert.equal(tally.isComplete, true);
  assert.deepEqual(tally.usage, { inputTokens: 4n, audioOutputTokens: 90n });
});
