import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError, type Envelope } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { prepareBody, readEnvelope, upstreamHeaders } from "./request.ts";

function envelopeOf(body: string): Envelope {
  const bytes = Buffer.from(body);
  return readEnvelope(readJsonBody(bytes), "m");
}
const prepared = (body: string, upstreamModel = "m"): string => prepareBody(envelopeOf(body), upstreamModel).toString();
const withFields = (fields: object): Envelope => envelopeOf(JSON.stringify({ model: "m", messages: [], ...fields }));

test("API spec, Messages request: the service removes inference_geo, service_tier and speed before forwarding", () => {
  const body =
    '{"inference_geo":"eu","model":"m","service_tier":{"a":[1]},"max_tokens":5,"messages":[],"speed":"fast"}';
  assert.equal(prepared(body), '{"model":"m","max_tokens":5,"messages":[]}');
  assert.equal(prepared('{"sp\\u0065ed":"fast","model":"m"}'), '{"model":"m"}');
});

test("what is removed from a request is removed from its fallbacks, too, so that none runs at a dearer speed", () => {
  const fallback = '{"model":"claude-b","max_tokens":5}';
  const dear = '{"model":"claude-b","speed":"fast","max_tokens":5,"service_tier":"auto"}';
  assert.equal(prepared(`{"model":"m","fallbacks":[${dear}]}`), `{"model":"m","fallbacks":[${fallback}]}`);
  const long = JSON.stringify([{ model: "x".repeat(70_000) }]);
  assert.throws(() => envelopeOf(`{"model":"m","fallbacks":${long}}`), RequestError);
});

test("fallbacks tell their models, and the longest answer that one of them may give", () => {
  const fallbacks = [{ model: "b", max_tokens: 900 }, { model: "c" }, { model: 7 }, "d"];
  const { fallbackModels, outputCap } = withFields({ max_tokens: 5, fallbacks });
  assert.deepEqual([fallbackModels, outputCap], [["b", "c", "", ""], 900]);
  for (const none of [undefined, null, "default", []]) {
    const read = withFields({ max_tokens: 5, ...(none !== undefined && { fallbacks: none }) });
    assert.deepEqual([read.fallbackModels, read.outputCap], [undefined, 5]);
  }
});

test("fields of those names inside others stay", () => {
  const body = '{"model":"m","messages":[{"speed":1}],"tools":[{"input_schema":{"properties":{"service_tier":{}}}}]}';
  assert.equal(prepared(body), body);
});

test("API spec, Messages request: `metadata` is passed to the upstream unchanged", () => {
  const metadata = '"metadata" : {"user_id":"\\u00e9", "x":1.0}';
  assert.equal(prepared(`{"model":"m",${metadata},"speed":"fast"}`), `{"model":"m",${metadata}}`);
});

test("a body that needs no change keeps its very bytes", () => {
  const envelope = envelopeOf('{ "model" : "m", "max_tokens":5 ,"messages":[ ] }\n');
  assert.equal(prepareBody(envelope, "m"), envelope.body.bytes);
});

test("the upstream's model name replaces the caller's; cache_control, order and unknown fields stay (trap 30)", () => {
  const rest =
    '"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}],"x_new":{"b":1,"a":2}';
  assert.equal(prepared(`{${rest},"model":"m"}`, "claude-up"), `{${rest},"model":"claude-up"}`);
});

test("a thread is not continued, since its history is kept elsewhere; the code is the one that clients fall back on", () => {
  const threads = [
    { type: "continue", previous_message_id: "msg_1" },
    { type: "create", previous_message_id: "msg_1" },
  ];
  for (const thread of [...threads, { type: "continue" }, { type: "fork" }, "msg_1", []]) {
    assert.throws(
      () => withFields({ thread }),
      (error) => {
        assert.ok(error instanceof RequestError);
        assert.equal(error.errorCode, "thread_unsupported_request");
        assert.match(error.message, /^field thread /);
        return true;
      },
    );
  }
});

test("a new thread loses nothing: the field is taken out and named", () => {
  const envelope = withFields({ thread: { type: "create" }, speed: "fast" });
  assert.deepEqual(envelope.removed, ["thread"]);
  assert.equal(prepareBody(envelope, "m").toString(), '{"model":"m","messages":[]}');
  for (const fields of [{}, { thread: null }, { speed: "fast" }]) assert.equal(withFields(fields).removed, undefined);
});

test("max_tokens is the cap; 0 only warms the cache", () => {
  assert.equal(withFields({ max_tokens: 64 }).outputCap, 64);
  assert.equal(withFields({ max_tokens: 0 }).outputCap, 0);
  for (const cap of [null, -1, "64", undefined]) assert.equal(withFields({ max_tokens: cap }).outputCap, undefined);
});

test("Messages streams always tell their counts, and there is one answer", () => {
  const envelope = withFields({ stream: true, n: 5, stream_options: { include_usage: false } });
  assert.equal(envelope.answer, "events");
  assert.equal(envelope.wantsStreamUsage, true);
  assert.equal(envelope.choices, 1);
});

const headersOf = (headers: Record<string, string>): Record<string, string> => {
  const flat = upstreamHeaders("secret", headers);
  return Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, pair) => flat.slice(pair * 2, pair * 2 + 2)));
};

test("the upstream gets the catalog's credential and the caller's version under the name that it knows", () => {
  assert.deepEqual(
    headersOf({ "provider-version": "2026-10-21", "x-api-key": "sk-caller", authorization: "Bearer c" }),
    {
      "x-api-key": "secret",
      "anthropic-version": "2026-10-21",
    },
  );
  assert.equal(headersOf({ "anthropic-version": "2025-01-01" })["anthropic-version"], "2025-01-01");
  assert.equal(
    headersOf({ "anthropic-version": "2025-01-01", "provider-version": "2026-10-21" })["anthropic-version"],
    "2026-10-21",
  );
  assert.equal(headersOf({})["anthropic-version"], "2023-06-01");
});

test("anthropic-beta travels along, because it changes the answer that the caller expects", () => {
  assert.equal(headersOf({ "anthropic-beta": "context-1m" })["anthropic-beta"], "context-1m");
  assert.ok(!("anthropic-beta" in headersOf({})));
});

test("thinking that came from another provider's model with our note for a signature does not go out as the provider's", () => {
  const ours = [
    { type: "thinking", thinking: "x", signature: "relay.1.gemini-generate.abc" },
    { type: "redacted_thinking", data: "relay.block.x" },
    { type: "thinking", thinking: "y", signature: "relay.unsigned" },
  ];
  const text = { type: "text", text: "relay." };
  const signed = { type: "thinking", thinking: "z", signature: "EqQB" };
  const messages = [
    { role: "user", content: "relay." },
    { role: "assistant", content: [...ours, signed, text] },
    { role: "assistant", content: ours },
  ];
  const sent = JSON.parse(prepared(JSON.stringify({ model: "m", messages, max_tokens: 5 }))) as { messages: unknown };
  assert.deepEqual(sent.messages, [messages[0], { role: "assistant", content: [signed, text] }]);
});
