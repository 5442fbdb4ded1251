import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError, type Envelope } from "../dialect.ts";
import { readJsonBody } from "../json/request-body.ts";
import { dialects } from "../index.ts";
import { prepareBody, readEnvelope } from "./request.ts";

function envelopeOf(body: string): Envelope {
  const bytes = Buffer.from(body);
  return readEnvelope(readJsonBody(bytes), "m");
}
const withFields = (fields: object): Envelope => envelopeOf(JSON.stringify({ model: "m", messages: [], ...fields }));
const prepared = (body: string, upstreamModel = "m"): string => prepareBody(envelopeOf(body), upstreamModel).toString();

test("a body for an upstream of the same model name that needs no change keeps its very bytes", () => {
  const body =
    '{ "messages" : [ {"role":"user","content":"\\u00e9"} ], "seed":1e2,\n"model":"m", "x_unknown": {"a": [1, 2]} }';
  const envelope = envelopeOf(body);
  assert.equal(prepareBody(envelope, "m"), envelope.body.bytes);
});

test("the upstream's model name replaces the caller's; unknown fields, their order and spelling stay", () => {
  const body = '{"x_unknown":{"b":1.0, "a":2},"model":"m","seed":1e2,"messages":[{"content":"\\u00e9"}]}';
  assert.equal(prepared(body, 'up"stream'), body.replace('"m"', '"up\\"stream"'));
});

test("trap 31 (max_tokens and max_completion_tokens dropped), trap 30 (cache_control vanishes): both reach the upstream", () => {
  const fields = '"max_tokens":5,"max_completion_tokens":6,"messages":[{"cache_control":{"type":"ephemeral"}}]';
  const body = `{"model":"m",${fields}}`;
  assert.equal(prepared(body, "n"), `{"model":"n",${fields}}`);
});

// Trap 9: ask upstream for usage always; send the option only with stream true.
const injections = [
  [
    "absent",
    '{"model":"m","messages":[],"stream":true}',
    '{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}',
  ],
  [
    "present without include_usage",
    '{"stream_options":{"include_obfuscation":false},"stream":true}',
    '{"stream_options":{"include_obfuscation":false,"include_usage":true},"stream":true}',
  ],
  [
    "present false",
    '{"stream_options":{"include_usage":false},"stream":true}',
    '{"stream_options":{"include_usage":true},"stream":true}',
  ],
  ["null", '{"stream_options":null,"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'],
  ["an empty object", '{"stream_options":{},"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'],
  [
    "already true",
    '{"stream_options": {"include_usage": true},"stream":true}',
    '{"stream_options": {"include_usage": true},"stream":true}',
  ],
  ["absent and not streamed", '{"stream":false}', '{"stream":false}'],
  [
    "present and not streamed",
    '{"stream_options":{"include_usage":false}}',
    '{"stream_options":{"include_usage":false}}',
  ],
] as const;

for (const [what, body, expected] of injections) {
  test(`trap 9 (ask upstream for usage always, only with stream true): stream_options ${what}`, () => {
    assert.equal(prepared(body), expected);
  });
}

test("stream_options and the model change in one go", () => {
  const body = '{"model":"m","stream_options":{"include_usage":false},"stream":true,"messages":[]}';
  assert.equal(
    prepared(body, "n"),
    '{"model":"n","stream_options":{"include_usage":true},"stream":true,"messages":[]}',
  );
});

test("API spec, Chat completions request: `max_completion_tokens` is the maximum, max_tokens its older name", () => {
  assert.equal(withFields({}).outputCap, undefined);
  assert.equal(withFields({ max_tokens: 10 }).outputCap, 10);
  assert.equal(withFields({ max_completion_tokens: 20 }).outputCap, 20);
  assert.equal(withFields({ max_tokens: 10, max_completion_tokens: 20 }).outputCap, 20);
  assert.equal(withFields({ max_tokens: 10.2 }).outputCap, 11);
  for (const cap of [null, 0, -1, "10"]) assert.equal(withFields({ max_tokens: cap }).outputCap, undefined);
});

test("of two caps the larger is held for, whichever the upstream keeps to; one that is no number caps nothing", () => {
  assert.equal(withFields({ max_tokens: 100_000, max_completion_tokens: 1 }).outputCap, 100_000);
  assert.equal(withFields({ max_tokens: null, max_completion_tokens: 1 }).outputCap, 1);
  for (const cap of [0, -1, "9"]) {
    assert.equal(withFields({ max_tokens: 1, max_completion_tokens: cap }).outputCap, undefined);
    assert.equal(withFields({ max_tokens: cap, max_completion_tokens: 1 }).outputCap, undefined);
  }
});

test("n choices are counted, up to what a provider allows", () => {
  assert.equal(withFields({}).choices, 1);
  assert.equal(withFields({ n: 3 }).choices, 3);
  assert.equal(withFields({ n: 128 }).choices, 128);
  for (const n of [129, 1e9]) assert.throws(() => withFields({ n }), /field n must be at most 128/);
  for (const n of [null, 0, -3]) assert.equal(withFields({ n }).choices, 1);
});

test("only true streams", () => {
  assert.equal(withFields({ stream: true }).answer, "events");
  for (const stream of [false, null]) assert.equal(withFields({ stream }).answer, "json");
});

test("what a lenient upstream would read as more choices or as a stream is refused", () => {
  for (const n of ["128", true, "1.0"]) assert.throws(() => withFields({ n }), RequestError);
  for (const stream of ["true", "True", 1]) assert.throws(() => withFields({ stream }), RequestError);
});

test("the upstream gets the catalog's credential as a bearer", () => {
  const { upstreamHeaders } = dialects["openai-chat"];
  assert.deepEqual(upstreamHeaders("secret", {}), ["authorization", "Bearer secret"]);
});

test("state of another provider's model that a caller sends back does not go out; what is not ours stays", () => {
  const google = { google: { thought_signature: "s" } };
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const messages = [
    { role: "assistant", content: "x", extra_content: { relay: { thinking: [] } } },
    { role: "assistant", content: "y", tool_calls: [{ ...call, extra_content: { relay: { state: "s" }, ...google } }] },
  ];
  const sent = JSON.parse(prepared(JSON.stringify({ model: "m", messages }))) as { messages: unknown };
  assert.deepEqual(sent.messages, [
    { role: "assistant", content: "x" },
    { role: "assistant", content: "y", tool_calls: [{ ...call, extra_content: google }] },
  ]);
});
