import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { TurnResponse, type EndedResponse, type TurnSink } from "./turn-response.ts";

type Json = Record<string, unknown>;

function start(changes: Partial<TurnSink> = {}) {
  const frames: string[] = [];
  const ended: EndedResponse[] = [];
  let broken = 0;
  const response = new TurnResponse({
    streamId: undefined,
    previousId: undefined,
    missingId: undefined,
    mayStore: true,
    send: (texts, sent) => {
      frames.push(...texts);
      sent();
    },
    onEnded: (one) => void ended.push(one),
    onBroken: () => void (broken += 1),
    ...changes,
  });
  const parsed = (): Json[] => frames.map((frame) => JSON.parse(frame) as Json);
  return { response, frames, parsed, ended, broken: () => broken };
}

const streamHead = { "content-type": "text/event-stream; charset=utf-8", "x-request-id": "rid" };
const eventOf = (event: Json): string => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`;
const delta = { type: "response.output_text.delta", delta: 'a "type":"response.completed" b' };
const completed = (response: Json): Json => ({ type: "response.completed", response });

test("each event is a frame, wherever the writes are cut; comments and the end mark are none", async () => {
  const { response, frames, parsed } = start();
  response.writeHead(200, streamHead);
  const text = `: keep-alive\n\n${eventOf({ type: "response.created" })}${eventOf(delta)}data: [DONE]\n\n`;
  for (let at = 0; at < text.length; at += 7) response.write(text.slice(at, at + 7));
  response.end(eventOf(completed({ id: "r" })));
  await once(response, "close");
  assert.deepEqual(
    parsed().map(({ type }) => type),
    ["response.created", delta.type, "response.completed"],
  );
  assert.equal(frames[1], JSON.stringify(delta));
  assert.deepEqual(parsed()[0]?.["headers"], { "x-request-id": "rid" });
});

test("frames of a stream carry its name, and responses what they continue", () => {
  const { response, parsed } = start({ streamId: 'a"b', previousId: "r0" });
  response.writeHead(200, streamHead);
  response.write(eventOf({ type: "response.created", response: { id: "r", previous_response_id: null } }));
  response.write(eventOf({ type: "response.output_text.delta", delta: '"previous_response_id":null' }));
  const [created, text] = parsed();
  assert.deepEqual([created?.["stream_id"], text?.["stream_id"]], ['a"b', 'a"b']);
  assert.deepEqual(created?.["response"], { id: "r", previous_response_id: "r0" });
  assert.equal(text?.["delta"], '"previous_response_id":null');
});

const message = { type: "message", id: "m", content: [{ type: "output_text", text: "Hi" }] };
const lost = { type: "reasoning", id: "rs", summary: [] };
const given = { type: "reasoning", id: "rs", summary: [], encrypted_content: "x" };

for (const [name, sink, fields, kept] of [
  ["stored", {}, { store: true }, [lost, given, message]],
  [
    "not stored by the provider",
    {},
    { store: false },
    [
      { ...given, id: undefined },
      { ...message, id: undefined },
    ],
  ],
  [
    "not to be stored",
    { mayStore: false },
    {},
    [
      { ...given, id: undefined },
      { ...message, id: undefined },
    ],
  ],
] as const) {
  test(`what a response brought, ${name}: as its end tells it, else item by item`, () => {
    for (const isAtEnd of [true, false]) {
      const { response, ended } = start(sink);
      response.writeHead(200, streamHead);
      const items = [lost, given, message];
      if (!isAtEnd) for (const item of items) response.write(eventOf({ type: "response.output_item.done", item }));
      response.write(eventOf(completed({ id: "r", ...fields, output: isAtEnd ? items : [] })));
      assert.deepEqual(ended, [{ id: "r", items: kept.map((item) => JSON.stringify(item)) }]);
    }
  });
}

test("a response that failed cannot be continued, one that is incomplete can", () => {
  for (const [type, count] of [
    ["response.failed", 0],
    ["response.incomplete", 1],
  ] as const) {
    const { response, ended } = start();
    response.writeHead(200, streamHead);
    response.write(eventOf({ type, response: { id: "r", output: [] } }));
    assert.equal(ended.length, count);
  }
});

test("an answer that ends without saying how ends in an error", async () => {
  const { response, parsed } = start({ streamId: "s" });
  response.writeHead(200, streamHead);
  response.end(eventOf(delta));
  await once(response, "close");
  const last = parsed().at(-1);
  assert.deepEqual([last?.["type"], last?.["status"], last?.["stream_id"]], ["error", 500, "s"]);
});

test("a refusal over HTTP is an error with its status, error and headers", async () => {
  const { response, parsed } = start();
  const error = { message: "slow down", type: "api_error", param: "", code: "rate_limit_exceeded" };
  response.writeHead(429, { "content-type": "application/json", "x-request-id": "rid", "retry-after": 60 });
  response.end(JSON.stringify({ error }));
  await once(response, "close");
  const headers = { "x-request-id": "rid", "retry-after": "60" };
  assert.deepEqual(parsed(), [{ type: "error", status: 429, error, headers }]);
});

test("a model that stores nothing is refused by the provider's code for a response that is gone", async () => {
  const { response, parsed } = start({ previousId: "r9", missingId: "r9" });
  response.writeHead(400, { "content-type": "application/json" });
  response.end(
    '{"error":{"message":"field previous_response_id cannot be used with this model","code":"invalid_request"}}',
  );
  await once(response, "close");
  const { error } = parsed()[0] ?? {};
  assert.equal((error as Json)["code"], "previous_response_not_found");
});

test("it is full while the connection does not take what was written", async () => {
  const waiting: (() => void)[] = [];
  const { response } = start({ send: (_texts, sent) => void waiting.push(sent) });
  response.writeHead(200, streamHead);
  const large = eventOf({ type: "x", text: "y".repeat(100_000) });
  assert.ok(!response.write(large));
  const drained = once(response, "drain");
  waiting.pop()?.();
  await drained;
});

test("what HTTP would break off breaks the socket; an answer that ended does not", async () => {
  const one = start();
  one.response.destroy();
  await once(one.response, "close");
  const other = start();
  other.response.writeHead(200, streamHead).end(eventOf(completed({ id: "r" })));
  await once(other.response, "close");
  assert.deepEqual([one.broken(), other.broken()], [1, 0]);
});
