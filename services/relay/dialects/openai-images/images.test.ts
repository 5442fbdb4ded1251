import assert from "node:assert/strict";
import { test } from "node:test";
import type { ImageEditStreamEvent, ImageGenStreamEvent } from "openai/resources/images";
import { emptyTally, type Envelope } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readEnvelope } from "./request.ts";
import { readStreamEvent } from "../sse.ts";
import { dialects } from "../index.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const { createTap } = dialects["openai-images"];
const readReply = tallyReaderOf("openai-images");

const withFields = (fields: object): Envelope =>
  readEnvelope(readJsonBody(Buffer.from(JSON.stringify({ model: "m", prompt: "x", ...fields }))), "m");
const usage = {
  input_tokens: 50,
  input_tokens_details: { text_tokens: 10, image_tokens: 40 },
  output_tokens: 300,
  total_tokens: 350,
};

test("the request bounds what is held: images asked for, and the tokens of the dearest that they may be", () => {
  assert.deepEqual(withFields({ n: 2, quality: "low" }).units, { images: 2n, imageOutputTokens: 816n });
  assert.deepEqual(withFields({}).units, { images: 1n, imageOutputTokens: 6_240n });
  assert.deepEqual(withFields({ quality: "auto" }).units.imageOutputTokens, 6_240n);
  assert.deepEqual(withFields({ quality: "constructor" }).units.imageOutputTokens, 6_240n);
});

test("size and quality may decide the price", () => {
  assert.deepEqual(withFields({ size: "1024x1024", quality: "hd" }).priceFields, { size: "1024x1024", quality: "hd" });
  assert.deepEqual(withFields({ size: 7 }).priceFields, {});
});

test("a whole answer has as many images as it holds, and the tokens that the provider tells", () => {
  const tally = readReply({ created: 1, data: [{ b64_json: "a" }, { url: "u" }], usage });
  assert.ok(tally?.isComplete && tally.hasContent);
  assert.deepEqual(tally.counted, { images: 2n });
  assert.deepEqual(tally.usage, {
    inputTokens: 10n,
    imageInputTokens: 40n,
    imageOutputTokens: 300n,
    outputTokens: 0n,
  });
  assert.equal(readReply({ data: [{ url: "u" }] })?.usage, undefined);
  assert.equal(readReply({ created: 1 }), undefined);
});

const eventOf = (type: string, fields: object = {}): Buffer =>
  Buffer.from(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);

test("a stream is whole at as many completed images as were asked for; a partial one is content", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: true, n: 2 }), (error) => error);
  tap.read(readStreamEvent(eventOf("image_generation.partial_image", { b64_json: "a" })), tally);
  assert.equal(tally.hasContent, true);
  tap.read(readStreamEvent(eventOf("image_generation.completed", { b64_json: "a" })), tally);
  assert.equal(tally.isComplete, false);
  tap.read(readStreamEvent(eventOf("image_generation.completed", { b64_json: "b", usage })), tally);
  assert.equal(tally.isComplete, true);
  assert.equal(tally.counted.images, 2n);
  assert.equal(tally.usage?.imageOutputTokens, 300n);
});

test("an error within a stream fails it and shows callers no insides", () => {
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: true }), (error) => ({ ...error, message: "[hidden]" }));
  const verdict = tap.read(readStreamEvent(eventOf("error", { error: { message: "sk-secret" } })), tally);
  assert.equal(tally.isFailed, true);
  assert.match(String(verdict), /\[hidden\]/);
});

test("an SVG is written by a model of its own, whose tokens are beside those of the pictures", () => {
  const svg_usage = {
    model: "gpt-drawer",
    input_tokens: 11,
    output_tokens: 40,
    reasoning_tokens: 30,
    total_tokens: 51,
  };
  const tally = readReply({ created: 1, data: [{ b64_json: "a" }], usage, svg_usage });
  const part = { inputTokens: 11n, outputTokens: 10n, reasoningTokens: 30n };
  assert.deepEqual(tally?.byModel, [{ model: "gpt-drawer", usage: part }]);
  assert.deepEqual(
    [tally?.usage?.inputTokens, tally?.usage?.outputTokens, tally?.usage?.reasoningTokens],
    [21n, 10n, 30n],
  );
});

// Whether this compiles tells whether the official client knows a kind that is not here.
const kinds: Record<(ImageGenStreamEvent | ImageEditStreamEvent)["type"], "content" | "the end"> = {
  "image_generation.partial_image": "content",
  "image_generation.completed": "the end",
  "image_edit.partial_image": "content",
  "image_edit.completed": "the end",
};

for (const [type, use] of Object.entries(kinds)) {
  test(`${type} is read as ${use}`, () => {
    const tally = emptyTally();
    const tap = createTap(withFields({ stream: true }), (error) => error);
    tap.read(readStreamEvent(eventOf(type, { b64_json: "a", usage })), tally);
    assert.deepEqual([tally.hasContent, tally.isComplete], [true, use === "the end"]);
    assert.equal(tally.usage?.imageOutputTokens, use === "the end" ? 300n : undefined);
  });
}
