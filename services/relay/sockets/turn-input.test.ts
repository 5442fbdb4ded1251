import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { RequestError } from "../dialects/request-error.ts";
import { readType } from "../testing/declared-types.ts";
import { readClientEvent, type CreateEvent } from "./client-event.ts";
import type { KeptResponse } from "./kept-responses.ts";
import { prepareTurn } from "./turn-input.ts";

const read = (fields: object) => readClientEvent(Buffer.from(JSON.stringify(fields)));
const create = (fields: object): CreateEvent => {
  const event = read({ type: "response.create", model: "m", ...fields });
  assert.ok(event.kind === "create");
  return event;
};
const kept: KeptResponse = {
  id: "r1",
  before: undefined,
  items: Buffer.from('{"a":1},{"b":2}'),
  made: undefined,
  uses: 1,
};
const take = (id: string) => (id === "r1" ? kept : undefined);
const bodyOf = (fields: object): unknown => JSON.parse(prepareTurn(create(fields), take).body.toString());

test("a turn is the same request over HTTP, streamed, without what is of the socket", () => {
  const fields = { stream_id: "s", stream: false, generate: true, input: "Hi", tools: [] };
  assert.deepEqual(bodyOf(fields), { model: "m", input: "Hi", tools: [], stream: true });
});

test("a turn that continues a response brings its items along, in front of its own", () => {
  for (const [input, items] of [
    ['Say "hi"', [{ role: "user", content: 'Say "hi"' }]],
    [
      [{ c: 3 }, { d: [4] }],
      [{ c: 3 }, { d: [4] }],
    ],
    [[], []],
    [null, []],
    [undefined, []],
  ]) {
    const body = bodyOf({ previous_response_id: "r1", store: false, input });
    assert.deepEqual(body, {
      input: [{ a: 1 }, { b: 2 }, ...(items as object[])],
      model: "m",
      store: false,
      stream: true,
    });
  }
});

test("a response that is not kept is left to whoever serves the model", () => {
  const input = prepareTurn(create({ previous_response_id: "r2", input: "Hi" }), take);
  assert.equal(input.missingId, "r2");
  assert.match(input.body.toString(), /"previous_response_id":"r2"/);
});

test("what is no turn is refused", () => {
  for (const fields of [
    { type: "response.cancel" },
    { type: ["response.create"] },
    { type: "response.create", stream_id: "" },
    { type: "response.create", stream_id: "x".repeat(257) },
    { type: "response.create", stream_id: 5 },
    { type: "response.create", previous_response_id: {} },
    { type: "response.create", generate: "false" },
  ]) {
    assert.throws(() => read(fields), RequestError, JSON.stringify(fields));
  }
  assert.throws(() => prepareTurn(create({ input: { a: 1 } }), take), RequestError);
  assert.throws(() => readClientEvent(Buffer.from("[]")));
  assert.throws(() => readClientEvent(Buffer.from('{"type":"response.create","type":"x"}')));
});

test("every event that the official client sends is known, in its betas too", () => {
  const resources = join(import.meta.dirname, "../../../node_modules/openai/resources");
  const declared = [
    ["responses/responses.d.ts", "ResponsesClientEvent"],
    ["beta/responses/responses.d.ts", "BetaResponsesClientEvent"],
  ] as const;
  const types = declared.flatMap(([file, name]) =>
    readType(join(resources, file), name).objects.map(({ fields }) => fields.get("type")?.shape().literals[0]),
  );
  assert.ok(types.length > 3, "the types have kinds");
  for (const type of types) assert.doesNotThrow(() => read({ type, input: [] }), String(type));
});

test("a note that a response was processed asks for nothing; steering and injecting tell what was sent", () => {
  assert.deepEqual(read({ type: "response.processed", response_id: "r" }), { kind: "ignored" });
  const steer = { type: "response.steer", previous_response_id: "r", input: "Stop" };
  assert.deepEqual(read(steer), { kind: "steer", previousId: "r", input: "Stop" });
  const inject = { type: "response.inject", response_id: "r", input: [{ type: "function_call_output" }] };
  assert.deepEqual(read(inject), { kind: "inject", responseId: "r", input: inject.input });
});

test("a warm-up is a response without output, of the same stream", () => {
  const { warmUp, added } = prepareTurn(create({ generate: false, stream_id: "s", input: "Hi" }), take);
  const events = warmUp?.frames.map((frame) => JSON.parse(frame) as { type: string; stream_id: string });
  assert.deepEqual(
    events?.map(({ type, stream_id: stream }) => [type, stream]),
    [
      ["response.created", "s"],
      ["response.completed", "s"],
    ],
  );
  assert.equal(added.toString(), '{"role":"user","content":"Hi"}');
});
