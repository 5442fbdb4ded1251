import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { WebSocket } from "ws";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { charged, open, start, type SocketRelay } from "../testing/realtime-client.ts";

const large = { textBytes: 12_000_000, chunks: 1 };

/** Lets a caller read nothing until what the provider said is counted, and then all of it. */
async function readLate({ relay }: SocketRelay, webSocket: WebSocket, isThere: () => boolean): Promise<void> {
  webSocket.pause();
  await until("its memory is counted", () => relay.replies.bytes() > 1_000_000);
  webSocket.resume();
  await until("the caller has it", isThere);
  await until("its memory is given back", () => relay.replies.bytes() === 0);
  assert.equal(relay.replies.waiting(), 0);
}

test("what a provider says in a session is counted until its caller has read it", async () => {
  const relay = await start();
  const { webSocket, events, ask } = await open(relay);
  ask({ text: "x".repeat(3_500_000), chunks: 1 });
  await readLate(relay, webSocket, () => events.some(({ type }) => type === "response.done"));
});

test("so is what it says in a turn of Responses over a socket of its own", async () => {
  const relay = await start({}, { upstream: { hasResponsesSocket: true } });
  const headers = { authorization: "Bearer sk-right" };
  const webSocket = new WebSocket(`ws://127.0.0.1:${relay.port}/v1/responses`, { headers });
  after(() => webSocket.terminate());
  const types: string[] = [];
  webSocket.on("message", (data) => types.push(/"type":\s*"([^"]+)"/.exec((data as Buffer).toString())?.[1] ?? ""));
  await once(webSocket, "open");
  webSocket.send(JSON.stringify({ type: "response.create", model: "m", input: behaviourText(large) }));
  await readLate(relay, webSocket, () => types.includes("response.completed"));
});

test("so is a large event of a stream over HTTP", async () => {
  const { relay, url } = await start();
  const answer = await fetch(`${url}/v1/responses`, {
    method: "POST",
    headers: { authorization: "Bearer sk-right", "content-type": "application/json" },
    body: JSON.stringify({ model: "m", stream: true, input: behaviourText(large) }),
  });
  await until("its memory is counted", () => relay.replies.bytes() > 1_000_000);
  assert.match(await answer.text(), /response\.completed/);
  await until("its memory is given back", () => relay.replies.bytes() === 0);
});

test("what a caller has left behind is not counted, and is read on", async () => {
  const relay = await start();
  const leaving = new AbortController();
  const asked = { text: "one two three", chunks: 3, gapMs: 20 };
  const answer = await fetch(`${relay.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: "Bearer sk-right", "content-type": "application/json" },
    body: JSON.stringify({ model: "m", stream: true, input: behaviourText(asked) }),
    signal: leaving.signal,
  });
  await answer.body?.getReader().read();
  leaving.abort();
  await until("it is charged", () => charged(relay).length === 1);
  assert.equal(relay.fake.truth[0]?.ended, "whole");
  assert.deepEqual([relay.relay.replies.bytes(), relay.relay.replies.waiting()], [0, 0]);
});
