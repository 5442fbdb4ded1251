import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Envelope } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { rewriteReply } from "./rewrite-reply.ts";
import { readEnvelope } from "./request.ts";
import { tallyReaderOf } from "../testing/reading.ts";

const readReply = tallyReaderOf("openai-embeddings");

const asking = (format?: string): Envelope => {
  const request = { model: "m", input: "x", ...(format !== undefined && { encoding_format: format }) };
  return readEnvelope(readJsonBody(Buffer.from(JSON.stringify(request))), "m");
};
const listOf = (...embeddings: unknown[]): object => ({
  object: "list",
  data: embeddings.map((embedding, index) => ({ object: "embedding", index, embedding })),
  model: "served",
  usage: { prompt_tokens: 5, total_tokens: 5 },
});
const embeddingsOf = (body: Buffer | undefined): unknown[] =>
  (JSON.parse(String(body)) as { data: { embedding: unknown }[] }).data.map(({ embedding }) => embedding);

test("a list of embeddings is whole and is charged by its prompt_tokens", () => {
  const tally = readReply(listOf([1]));
  assert.ok(tally?.isComplete && tally.hasContent);
  assert.deepEqual(tally.usage, { inputTokens: 5n });
  assert.equal(tally.modelServed, "served");
  assert.equal(readReply({ data: [], usage: { prompt_tokens: 0 } })?.usage, undefined);
  for (const body of [undefined, null, {}, { data: "x" }]) assert.equal(readReply(body), undefined);
});

test("what is as asked stays as it came", () => {
  assert.equal(rewriteReply(listOf([0.5], [1]), asking()), undefined);
  assert.equal(rewriteReply(listOf([0.5]), asking("float")), undefined);
  assert.equal(rewriteReply(listOf("AAAAPw=="), asking("base64")), undefined);
  assert.equal(rewriteReply({ data: "x" }, asking("base64")), undefined);
});

test("numbers become base64 for who asked for base64, and base64 becomes numbers for everybody else", () => {
  assert.deepEqual(embeddingsOf(rewriteReply(listOf([0.5], [-2]), asking("base64"))), ["AAAAPw==", "AAAAwA=="]);
  assert.deepEqual(embeddingsOf(rewriteReply(listOf("AAAAPw=="), asking())), [[0.5]]);
  assert.deepEqual(embeddingsOf(rewriteReply(listOf("AAAAPw=="), asking("float"))), [[0.5]]);
});

test("there and back again is the same vector, to the last bit of a float32", () => {
  const vectors = fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(vectors, (vector) => {
      // JSON has no -0.
      const numbers = vector.map((value) => value + 0);
      const encoded = embeddingsOf(rewriteReply(listOf(numbers), asking("base64")))[0];
      assert.deepEqual(embeddingsOf(rewriteReply(listOf(encoded), asking("float")))[0], numbers);
    }),
  );
});
