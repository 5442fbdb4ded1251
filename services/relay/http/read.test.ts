import assert from "node:assert/strict";
import { test } from "node:test";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure, type Failure } from "../failures.ts";
import { readEnvelope, readKey, readVersion } from "./read.ts";

function failureOf(run: () => unknown): Failure {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof CallFailure, `a CallFailure, not ${String(error)}`);
    return error.failure;
  }
  return assert.fail("nothing was thrown");
}

const keyRows: [string, Record<string, string>, boolean, string | undefined][] = [
  ["Authorization on any endpoint", { authorization: "Bearer sk-a" }, false, "sk-a"],
  ["Authorization on a Format B endpoint", { authorization: "Bearer sk-a" }, true, "sk-a"],
  ["x-api-key on a Format B endpoint", { "x-api-key": "sk-b" }, true, "sk-b"],
  ["x-api-key works only on Format B endpoints", { "x-api-key": "sk-b" }, false, undefined],
  ["x-api-key beside Authorization on Format B", { "x-api-key": "sk-b", authorization: "Bearer sk-a" }, true, "sk-b"],
  ["x-api-key beside Authorization elsewhere", { "x-api-key": "sk-b", authorization: "Bearer sk-a" }, false, "sk-a"],
  ["an empty x-api-key is none", { "x-api-key": "", authorization: "Bearer sk-a" }, true, "sk-a"],
  ["the scheme in any case", { authorization: "bearer  sk-a" }, false, "sk-a"],
  ["missing", {}, true, undefined],
  ["another scheme", { authorization: "Basic c2stYQ==" }, false, undefined],
  ["a scheme without a key", { authorization: "Bearer " }, false, undefined],
  ["two keys", { authorization: "Bearer sk-a sk-b" }, false, undefined],
];

for (const [what, headers, isFormatB, key] of keyRows) {
  test(`API spec, Authentication: 1. \`x-api-key\` works only on Format B endpoints: ${what}`, () => {
    if (key === undefined) assert.equal(failureOf(() => readKey(headers, isFormatB)).name, "key_invalid");
    else assert.equal(readKey(headers, isFormatB), key);
  });
}

test("API spec, Authentication: 2. Format B also requires the header `provider-version`. It, or anthropic-version, is a date <YYYY-MM-DD>", () => {
  assert.equal(readVersion({ "provider-version": "2026-10-21" }), "2026-10-21");
  assert.equal(readVersion({ "anthropic-version": "2023-06-01" }), "2023-06-01");
  assert.equal(readVersion({ "provider-version": "2026-10-21", "anthropic-version": "2023-06-01" }), "2026-10-21");
  for (const version of ["", "2026-1-1", "latest", "2026-10-21T00:00:00Z", " 2026-10-21"]) {
    assert.equal(readVersion({ "provider-version": version }), undefined, version);
  }
  assert.equal(readVersion({}), undefined);
});

const version = { "provider-version": "2026-10-21" };

function envelopeFailure(text: string, dialect: DialectName = "openai-chat", headers = version): Failure {
  return failureOf(() => readEnvelope(Buffer.from(text), dialects[dialect], headers));
}

const requiredRows: [DialectName, string, string][] = [
  ["openai-chat", "{}", "model"],
  ["openai-chat", '{"messages":[]}', "model"],
  ["openai-chat", '{"model":null,"messages":[]}', "model"],
  ["openai-chat", '{"model":"","messages":[]}', "model"],
  ["openai-chat", '{"model":"m"}', "messages"],
  ["openai-chat", '{"model":"m","messages": null}', "messages"],
  ["anthropic-messages", '{"max_tokens":5,"messages":[]}', "model"],
  ["anthropic-messages", '{"model":"m","max_tokens":5}', "messages"],
  ["anthropic-messages", '{"model":"m","messages":[]}', "max_tokens"],
  ["anthropic-messages", '{"model":"m","messages":[],"max_tokens":null}', "max_tokens"],
];

for (const [dialect, text, field] of requiredRows) {
  test(`API spec, Cases: Required field missing: field ${field} is required, of ${dialect} ${text}`, () => {
    const failure = envelopeFailure(text, dialect);
    assert.deepEqual([failure.name, failure.detail], ["field_required", field]);
  });
}

const invalidRows: [string, string, RegExp][] = [
  ["a model that is no string", '{"model":7,"messages":[]}', /^field model must be a string$/],
  ["messages that are no array", '{"model":"m","messages":"hi"}', /^field messages must be an array$/],
  ["messages that are an object", '{"model":"m","messages":{}}', /^field messages must be an array$/],
];

for (const [what, text, detail] of invalidRows) {
  test(`400 invalid_request in words of our own: ${what}`, () => {
    const failure = envelopeFailure(text);
    assert.equal(failure.name, "field_invalid");
    assert.match(failure.detail ?? "", detail);
  });
}

for (const text of [
  "",
  "nope",
  "[]",
  '{"model":"m",}',
  '{"model":"m","model":"n","messages":[]}',
  '{"model":"\\q","messages":[]}',
]) {
  test(`API spec, Cases: Body not valid JSON: ${text}`, () => {
    assert.equal(envelopeFailure(text).name, "invalid_json");
  });
}

test("on /v1/messages a missing or malformed provider-version is 400 invalid_request_error, elsewhere it is not asked for", () => {
  const body = '{"model":"m","messages":[],"max_tokens":5}';
  for (const headers of [{}, { "provider-version": "latest" }]) {
    assert.equal(envelopeFailure(body, "anthropic-messages", headers as typeof version).name, "field_invalid");
    assert.equal(readEnvelope(Buffer.from(body), dialects["openai-chat"], headers).model, "m");
  }
  const alias = { "anthropic-version": "2023-06-01" };
  assert.equal(readEnvelope(Buffer.from(body), dialects["anthropic-messages"], alias).outputCap, 5);
});

test("everything else in a body is the upstream's to judge", () => {
  const body = '{"model":"m","messages":[{"role":7}],"temperature":"hot","max_tokens":"many","x_unknown":null}';
  const envelope = readEnvelope(Buffer.from(body), dialects["openai-chat"], {});
  assert.deepEqual([envelope.model, envelope.outputCap, envelope.answer], ["m", undefined, "json"]);
});

test("a field that a lenient upstream would take for one that decides is refused; any other spelling passes", () => {
  const read = (name: string) =>
    readEnvelope(
      Buffer.from(JSON.stringify({ model: "m", messages: [], [name]: "dearer" })),
      dialects["openai-chat"],
      {},
    );
  for (const name of [
    "MODEL",
    "Model",
    "mode\u006C ",
    "\u017Fervice_tier",
    "bac\u212Aground",
    "Max_Tokens",
    "maxTokens",
  ].concat(["service-tier", "model\0", "mo\uFFFDdel", "\u200Bmodel"])) {
    assert.throws(
      () => read(name),
      (error) => error instanceof CallFailure && error.failure.name === "field_invalid",
      name,
    );
  }
  for (const name of ["X-Model", "models", "userModel", "Größe"]) assert.equal(read(name).model, "m", name);
});
