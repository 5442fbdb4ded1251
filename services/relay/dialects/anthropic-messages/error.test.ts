import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { readError, writeError } from "./error.ts";

test("API spec, Errors: `/v1/messages` | `{type: 'error', error: {type: <string>, message: <string>}}`", () => {
  const refusal = { status: 400, message: "no", type: "invalid_request_error", code: "invalid_request" };
  const body: unknown = JSON.parse(writeError(refusal));
  assert.deepEqual(body, { type: "error", error: { type: "invalid_request_error", message: "no" } });
});

test("an error code of the format stands in the error's details, where its clients look for it", () => {
  const details = { error_code: "thread_unsupported_request" };
  const refusal = { status: 400, message: "no", type: "invalid_request_error", code: "", details };
  const { error } = JSON.parse(writeError(refusal)) as { error: unknown };
  assert.deepEqual(error, { type: "invalid_request_error", message: "no", details });
});

test("an official client raises the class that details name, with all that they tell", async () => {
  const details = { error_code: "image_dimensions_too_large", max_side_length_pixels: 2_000, paths: ["messages.0"] };
  const body = writeError({ status: 400, message: "no", type: "invalid_request_error", code: "", details });
  const fetch = () =>
    Promise.resolve(new Response(body, { status: 400, headers: { "content-type": "application/json" } }));
  const client = new Anthropic({ apiKey: "k", maxRetries: 0, fetch });
  const asked = client.messages.create({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
  await assert.rejects(asked, (error) => {
    assert.ok(error instanceof Anthropic.ImageDimensionsTooLargeError);
    assert.deepEqual(error.details, details);
    return true;
  });
});

const rows = [
  [
    { type: "error", error: { type: "overloaded_error", message: "m" }, request_id: "req_1" },
    { message: "m", type: "overloaded_error", code: undefined },
  ],
  [{ error: { message: "m" } }, { message: "m", type: undefined, code: undefined }],
  [{ error: { message: "m", details: { visible: true } } }, { message: "m", type: undefined, code: undefined }],
  [
    { error: { type: "t", message: "m", details: { error_code: "c", paths: ["messages.0"] } } },
    { message: "m", type: "t", code: "c", details: { error_code: "c", paths: ["messages.0"] } },
  ],
  [{ type: "error", error: { type: "t" } }, undefined],
  [{ type: "error" }, undefined],
  [{ error: "words" }, { message: "words", type: undefined, code: undefined }],
  [
    { object: "error", message: "m", type: "BadRequestError", code: 400 },
    { message: "m", type: "BadRequestError", code: "400" },
  ],
  [
    JSON.parse('{"detail": [{"loc": ["body", "top_k"], "msg": "m"}]}'),
    { message: "m (top_k)", type: undefined, code: undefined, param: "top_k" },
  ],
  ["text", undefined],
  [undefined, undefined],
] as const;

for (const [body, expected] of rows) {
  test(`an upstream's error body is read: ${JSON.stringify(body)}`, () => assert.deepEqual(readError(body), expected));
}
