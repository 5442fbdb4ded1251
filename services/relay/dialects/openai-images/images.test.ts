import assert from "node:assert/strict";
import { test } from "node:test";
import type { ImageEditStreamEvent, ImageGenStreamEvent } from "openai/resources/images";
import { emptyTally, type Envelope, type Tally } from "../dialect.ts";
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

/** What is charged of a stream of these events, as far as they go. */
function tallyOf(fields: object, events: Buffer[]): Tally {
  const tally = emptyTally();
  const tap = createTap(withFields({ stream: true, ...fields }), (error) => error);
  for (const event of events) tap.read(readStreamEvent(event), tally);
  return tally;
}

const completedWith = (output_tokens: number): Buffer =>
  eventOf("image_generation.completed", { b64_json: "a", usage: { ...usage, output_tokens } });

test("counts of each image of a stream are added, and its input is one; counts of all of them are not", () => {
  const rows: [what: string, told: number[], charged: bigint][] = [
    ["each its own", [272, 272, 272], 816n],
    ["each its own, one with pictures before it", [272, 372, 272], 916n],
    ["of all so far", [272, 544, 816], 816n],
    ["of all so far, the first with pictures before it", [372, 644], 644n],
  ];
  for (const [what, told, charged] of rows) {
    const { usage: units } = tallyOf({ n: told.length }, told.map(completedWith));
    assert.deepEqual(
      units,
      { inputTokens: 10n, imageInputTokens: 40n, imageOutputTokens: charged, outputTokens: 0n },
      what,
    );
  }
});

const succeeded = (image_index: number): Buffer =>
  eventOf("image_generation.partial_succeeded", { image_index, url: "https://example.com/1.png" });
const summary = { generated_images: 2, output_tokens: 8_000, total_tokens: 8_000 };

test("images that an event sums up at the end are counted one by one before it, as Volcengine and MiniMax tell them", () => {
  const cut = tallyOf({ n: 3 }, [succeeded(0), succeeded(1)]);
  assert.deepEqual([cut.hasContent, cut.hasFinish, cut.counted], [true, false, { images: 2n }]);
  const failed = eventOf("image_generation.partial_failed", { image_index: 2, error: { code: "x", message: "no" } });
  const end = eventOf("image_generation.completed", { usage: summary });
  const whole = tallyOf({ n: 3 }, [succeeded(0), failed, succeeded(1), end]);
  assert.deepEqual([whole.isComplete, whole.isFailed, whole.counted], [true, false, { images: 2n }]);
  assert.equal(whole.usage?.imageOutputTokens, 8_000n);
});

test("counts that come with an error behind images are read", () => {
  const error = { code: "server_error", message: "no" };
  const tally = tallyOf({ n: 3 }, [succeeded(0), eventOf("error", { error, usage: summary })]);
  assert.deepEqual([tally.isFailed, tally.counted, tally.usage?.imageOutputTokens], [true, { images: 1n }, 8_000n]);
});

test("why one of many images was not made passes without its insides, and in its place", () => {
  const tap = createTap(withFields({ stream: true, n: 2 }), (error) => ({ ...error, message: "[hidden]" }));
  const event = eventOf("image_edit.partial_failed", { image_index: 1, error: { code: "x", message: "sk-secret" } });
  const told = String(tap.read(readStreamEvent(event), emptyTally()));
  assert.match(told, /^event: image_edit.partial_failed\ndata: .*"image_index":1,"error":\{"message":"\[hidden\]"/);
});

test("an image that was not made is none of a whole answer", () => {
  const tally = readReply({
    created: 1,
    data: [{ url: "u" }, { error: { code: "x", message: "no" } }],
    usage: summary,
  });
  assert.deepEqual([tally?.counted, tally?.hasContent], [{ images: 1n }, true]);
  assert.equal(readReply({ created: 1, data: [{ error: { code: "x", message: "no" } }] })?.hasContent, false);
});

test("searches for images are counted, whole and streamed", () => {
  const told = { ...summary, tool_usage: { web_search: 2 } };
  const counted = { images: 1n, webSearches: 2n };
  assert.deepEqual(readReply({ created: 1, data: [{ url: "u" }], usage: told })?.counted, counted);
  const end = eventOf("image_generation.completed", { usage: { ...told, generated_images: 1 } });
  assert.deepEqual(tallyOf({}, [succeeded(0), end]).counted, counted);
});

test("a sequence of images is held for as many as its model may make", () => {
  const sequence = (options?: object): object => ({
    sequential_image_generation: "auto",
    ...(options && { sequential_image_generation_options: options }),
  });
  assert.equal(withFields(sequence()).units.images, 15n);
  assert.equal(withFields(sequence({ max_images: 4 })).units.images, 4n);
  assert.equal(withFields({ sequential_image_generation: "disabled" }).units.images, 1n);
  assert.throws(() => withFields(sequence({ max_images: 16 })), /max_images must be a number from 1 to 15/);
  assert.throws(() => withFields(sequence({ max_images: "4" })), /max_images must be a number/);
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
