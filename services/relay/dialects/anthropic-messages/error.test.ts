import assert from "node:assert/strict";
import { test } from "node:test";
import { readError, writeError } from "./error.ts";

test("API spec, Errors: `/v1/messages` | `{type: 'error', error: {type: <string>, message: <string>}}`", () => {
  const refusal = { status: 400, message: "no", type: "invalid_request_error", code: "invalid_request" };
  const body: unknown = JSON.parse(writeError(refusal));
  assert.deepEqual(body, { type: "error", error: { type: "invalid_request_error", message: "no" } });
});

test("an error code of the format stands in the error's details, where its clients look for it", () => {
  const errorCode = "thread_unsupported_request";
  const refusal = { status: 400, message: "no", type: "invalid_request_error", code: "", errorCode };
  const { error } = JSON.parse(writeError(refusal)) as { error: unknown };
  assert.deepEqual(error, { type: "invalid_request_error", message: "no", details: { error_code: errorCode } });
});

const rows = [
  [
    { type: "error", error: { type: "overloaded_error", message: "m" }, request_id: "req_1" },
    { message: "m", type: "overloaded_error", code: undefined },
  ],
  [{ error: { message: "m" } }, { message: "m", type: undefined, code: undefined }],
  [{ type: "error", error: { type: "t" } }, undefined],
  [{ type: "error" }, undefined],
  [{ error: "words" }, { message: "words", type: undefined, code: undefined }],
  [
    { object: "error", message: "m", type: "BadRequestError", code: 400 },
    { message: "m", type: "BadRequestError", code: "400" },
  ],
  [
    { detail: [{ loc: ["body", "top_k"], msg: "m" }] },
    { message: "m (top_k)", type: undefined, code: undefined, param: "top_k" },
  ],
  ["text", undefined],
  [undefined, undefined],
] as const;

for (const [body, expected] of rows) {
  test(`an upstream's error body is read: ${JSON.stringify(body)}`, () => assert.deepEqual(readError(body), expected));
}
