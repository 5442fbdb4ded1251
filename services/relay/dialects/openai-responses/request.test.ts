import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError, type Envelope } from "../dialect.ts";
import { dialects } from "../index.ts";
import { readJsonBody } from "../json/request-body.ts";
import { readCompactEnvelope, readEnvelope, upstreamHeaders } from "./request.ts";

const bodyOf = (fields: object) => readJsonBody(Buffer.from(JSON.stringify({ model: "m", ...fields })));
const withFields = (fields: object): Envelope => readEnvelope(bodyOf(fields), "m");

test("API spec, Responses request: max_output_tokens is the maximum, stream streams, one answer", () => {
  const envelope = withFields({ max_output_tokens: 20, stream: true, n: 4 });
  assert.deepEqual([envelope.outputCap, envelope.answer, envelope.choices], [20, "events", 1]);
  assert.equal(withFields({ max_output_tokens: null }).outputCap, undefined);
  assert.equal(withFields({ stream: false }).answer, "json");
});

test("an answer that would be fetched later is refused: it could not be counted", () => {
  assert.throws(() => withFields({ background: true }), RequestError);
  assert.equal(withFields({ background: false }).answer, "json");
});

test("a compaction is never streamed", () => {
  assert.equal(readCompactEnvelope(bodyOf({ stream: true }), "m").answer, "json");
});

test("store, previous_response_id and unknown fields reach the upstream as they are, beside the upstream's model", () => {
  const fields = '"store":false,"previous_response_id":"resp_1","x_unknown":[1.0, 2]';
  const body = readJsonBody(Buffer.from(`{"model":"m",${fields}}`));
  const prepared = dialects["openai-responses"].prepareBody(readEnvelope(body, "m"), "theirs");
  assert.equal(prepared.toString(), `{"model":"theirs",${fields}}`);
});

test("reasoning that came from another provider's model with our note for encrypted content does not go out", () => {
  const own = { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "gAAAA" };
  const ours = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "relay.1.anthropic-messages.EqQB" };
  const input = [{ role: "user", content: "Hi" }, ours, own];
  const prepared = dialects["openai-responses"].prepareBody(withFields({ input }), "m");
  assert.deepEqual((JSON.parse(prepared.toString()) as { input: unknown }).input, [input[0], own]);
  const text = withFields({ input: "relay." });
  assert.equal(dialects["openai-responses"].prepareBody(text, "m"), text.body.bytes);
});

test("of the provider's betas, only that of several agents travels along", () => {
  const authorization = ["authorization", "Bearer secret"];
  const sent = (beta?: string) => upstreamHeaders("secret", { "openai-beta": beta });
  assert.deepEqual(sent("responses_multi_agent=v1"), [...authorization, "openai-beta", "responses_multi_agent=v1"]);
  for (const beta of [undefined, "responses_websockets=2026-02-06"]) assert.deepEqual(sent(beta), authorization);
});
