import assert from "node:assert/strict";
import { test } from "node:test";
import type { EventVerdict } from "../dialect.ts";
import { isError, passErrors, readError, writeError } from "./error.ts";

/** What a caller gets in place of an error within a stream when its message is taken out. */
function passHidden(error: object): EventVerdict {
  const read = readError({ error });
  assert.ok(read);
  return passErrors((told) => ({ ...told, message: "hidden" })).onError({ data: undefined, json: undefined }, read);
}

test("API spec, Errors: All others | `{error: {message: <string>, type: <string>, param: <string>, code: <string>}}`", () => {
  const body: unknown = JSON.parse(writeError({ status: 400, message: "no", type: "api_error", code: "" }));
  assert.deepEqual(body, { error: { message: "no", type: "api_error", param: "", code: "" } });
});

test("an error within a stream that is told in other words has all of those fields, as texts", () => {
  const error = { message: "Key sk-1 is bad", type: "t", param: null, code: null };
  const verdict = passHidden(error);
  assert.ok(verdict instanceof Buffer);
  const told: unknown = JSON.parse(verdict.toString().replace("data: ", ""));
  assert.deepEqual(told, { error: { message: "hidden", type: "t", param: "", code: "server_error" } });
});

test("Google's chat endpoint sends the errors of its streams in a list, which official clients cannot read", () => {
  const json = [{ error: { code: 503, message: "Overloaded", status: "UNAVAILABLE" } }];
  assert.ok(isError(json));
  const read = readError(json);
  assert.ok(read);
  const verdict = passErrors((told) => told).onError({ data: undefined, json }, read);
  assert.ok(verdict instanceof Buffer);
  const told: unknown = JSON.parse(verdict.toString().replace("data: ", ""));
  assert.deepEqual(told, { error: { message: "Overloaded", type: "UNAVAILABLE", param: "", code: "UNAVAILABLE" } });
  for (const other of [[], [{ choices: [] }], [7]]) assert.ok(!isError(other));
});

test("MiniMax tells errors in answers of 200 by a number, which is 0 in all others", () => {
  const told = (status_code: unknown, more: object = {}): object => ({
    id: "x",
    choices: null,
    base_resp: { status_code, status_msg: "no" },
    ...more,
  });
  const rows: [body: object, code: string | undefined][] = [
    [told(1002), "rate_limit_exceeded"],
    [told(1004), "invalid_api_key"],
    [told(1008), "insufficient_quota"],
    [told(1027), "content_filter"],
    [told(2013), "invalid_request"],
    [told(1033), "server_error"],
    [told(0), undefined],
    [told("1002"), undefined],
    [told(1027, { choices: [{ index: 0, delta: { content: "x" } }] }), undefined],
  ];
  for (const [body, code] of rows) {
    assert.deepEqual([isError(body), readError(body)?.code], [code !== undefined, code], JSON.stringify(body));
  }
  assert.equal(readError(told(1002))?.message, "no");
});

test("the field that an upstream names is told", () => {
  const written = writeError({ status: 400, message: "no", type: "api_error", code: "", param: "messages" });
  assert.deepEqual(JSON.parse(written), { error: { message: "no", type: "api_error", param: "messages", code: "" } });
  const error = { message: "no", type: "t", param: "tools[0]", code: "c" };
  const verdict = passHidden(error);
  assert.ok(verdict instanceof Buffer);
  const within: unknown = JSON.parse(verdict.toString().replace("data: ", ""));
  assert.deepEqual(within, { error: { ...error, message: "hidden" } });
});

// As servers on FastAPI tell what is wrong with a request.
const listed: unknown = JSON.parse('{"detail": [{"loc": ["body", "tools", 0, "kind"], "msg": "Extra inputs"}]}');
const severalListed: unknown = JSON.parse(
  '{"detail": [{"loc": ["body", "n"], "msg": "too large"}, {"msg": "no model"}]}',
);

const rows = [
  [
    { error: { message: "m", type: "t", param: "tools[0].name", code: "c" } },
    { message: "m", type: "t", code: "c", param: "tools[0].name" },
  ],
  [{ error: { message: "m", type: "t", param: "", code: "c" } }, { message: "m", type: "t", code: "c" }],
  [{ error: { message: "m", type: "t", param: 7, code: "c" } }, { message: "m", type: "t", code: "c" }],
  [{ error: { message: "m", type: "t", param: null, code: "c" } }, { message: "m", type: "t", code: "c" }],
  [{ error: { message: "m", code: 400 } }, { message: "m", type: undefined, code: "400" }],
  [{ error: { message: "m", type: null, code: null } }, { message: "m", type: undefined, code: undefined }],
  [{ error: "only words" }, { message: "only words", type: undefined, code: undefined }],
  [
    { object: "error", message: "m", type: "t", param: null, code: 429 },
    { message: "m", type: "t", code: "429" },
  ],
  [
    { object: "error", message: listed, type: "invalid_request_error" },
    { message: "Extra inputs (tools.0.kind)", type: "invalid_request_error", code: undefined, param: "tools.0.kind" },
  ],
  [severalListed, { message: "too large (n); no model", type: undefined, code: undefined, param: "n" }],
  [{ detail: "Not Found" }, { message: "Not Found", type: undefined, code: undefined }],
  [{ detail: [] }, undefined],
  [{ object: "error", message: { detail: [7] } }, undefined],
  [{ object: "list", message: "m" }, undefined],
  [{ error: { code: "c" } }, undefined],
  [{ error: null }, undefined],
  [{ message: "no" }, { message: "no", type: undefined, code: undefined }],
  [
    { statusCode: 400, error: "Bad Request", message: "n is too large" },
    { message: "n is too large", type: undefined, code: undefined },
  ],
  [
    { code: 20_012, message: "Model does not exist", data: null },
    { message: "Model does not exist", type: undefined, code: "20012" },
  ],
  [{ detail: { error: "too long" } }, { message: "too long", type: undefined, code: undefined }],
  [JSON.parse('{"error": {"code": "1214", "msg": "no"}}'), { message: "no", type: undefined, code: "1214" }],
  [
    { success: false, errors: [{ code: 5006, message: "no" }] },
    { message: "no", type: undefined, code: "5006" },
  ],
  [
    [{ error: { code: 400, message: "no", status: "INVALID_ARGUMENT" } }],
    { message: "no", type: "INVALID_ARGUMENT", code: "INVALID_ARGUMENT" },
  ],
  [
    [{ error: { code: 400, message: "no", status: "INVALID_ARGUMENT", details: [{ reason: "API_KEY_INVALID" }] } }],
    { message: "no", type: "INVALID_ARGUMENT", code: "API_KEY_INVALID" },
  ],
  ...["the model reads one image", '{"error":{"message":"the model reads one image"}}'].map(
    (raw) =>
      [
        { error: { message: "Provider returned error", code: 400, metadata: { raw, provider_name: "P" } } },
        { message: "Provider returned error: the model reads one image", type: undefined, code: "400" },
      ] as const,
  ),
  [
    { error: { message: "Provider returned error", code: 400, metadata: { raw: '{"no":"words"}' } } },
    { message: "Provider returned error", type: undefined, code: "400" },
  ],
  [[], undefined],
  [{ errors: [] }, undefined],
  [{ message: 7 }, undefined],
  ["text", undefined],
  [undefined, undefined],
] as const;

for (const [body, expected] of rows) {
  test(`an upstream's error body is read: ${JSON.stringify(body)}`, () => assert.deepEqual(readError(body), expected));
}
