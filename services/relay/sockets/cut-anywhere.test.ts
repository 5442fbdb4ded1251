import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { WebSocket } from "ws";
import { behaviourText } from "#fake-provider/behaviour.ts";
import type { UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { until } from "#shared/testing/until.ts";
import { charged, heldOf, key, open, start, type Json, type SocketRelay } from "../testing/realtime-client.ts";

// Wherever in an answer a caller tears his socket down: what was served is charged, once, and nothing stays held.

const cuts = [0, 1, 2, 4, 7];
const answer = { text: "seven words which somebody does not want", gapMs: 5 };

/** The record of the one call, when all books are closed. */
async function booked(relay: SocketRelay, before: number): Promise<UsageRecorded> {
  await until("the books are closed", () => relay.relay.live.size === 0 && charged(relay).length > before);
  const [record, ...more] = charged(relay).slice(before);
  assert.ok(record);
  assert.deepEqual([more.length, heldOf(relay)], [0, 0]);
  return record;
}

/** Tears a socket down at an event of the answer, at 0 when it has begun; gives how many of its words had come. */
async function cutAt(webSocket: WebSocket, at: number, ask: () => void, begun: () => Promise<unknown>) {
  let [events, words] = [0, 0];
  webSocket.on("message", (data) => {
    const { type } = JSON.parse((data as Buffer).toString()) as Json;
    if (!String(type).startsWith("response.")) return;
    events += 1;
    if (/(text|transcript)\.delta$/.test(String(type))) words += 1;
    if (events === at) webSocket.terminate();
  });
  const closed = once(webSocket, "close");
  ask();
  if (at === 0) {
    await begun();
    webSocket.terminate();
  }
  await closed;
  return words;
}

/** The upstream is asked, and the account has to pay for that. */
function askedOf({ fake }: SocketRelay): () => Promise<unknown> {
  const { length } = fake.received;
  return () => until("the upstream is asked", () => fake.received.length > length);
}

for (const hasResponsesSocket of [false, true]) {
  for (const action of ["drain", "abort"] as const) {
    const way = hasResponsesSocket ? "a socket" : "HTTP";
    test(`a turn over ${way} to an upstream that is told to ${action}`, async () => {
      const onCallerGone = action === "abort" ? { action } : { action, timeoutMs: 10_000, maxOutputTokens: 1_000 };
      const relay = await start({}, { upstream: { hasResponsesSocket, onCallerGone } });
      for (const at of cuts) {
        const before = charged(relay).length;
        const webSocket = new WebSocket(`ws://127.0.0.1:${relay.port}/v1/responses`, { headers: key });
        webSocket.on("error", () => undefined);
        await once(webSocket, "open");
        const turn = { type: "response.create", model: "m", input: behaviourText(answer, "Hi") };
        const words = await cutAt(webSocket, at, () => webSocket.send(JSON.stringify(turn)), askedOf(relay));
        const { usage } = await booked(relay, before);
        assert.ok(usage && usage.inputTokens > 0n && usage.outputTokens >= words, `${at}: ${usage?.outputTokens}`);
      }
    });
  }
}

test("a response of a session", async () => {
  const relay = await start();
  for (const at of cuts) {
    const before = charged(relay).length;
    const { webSocket, ask } = await open(relay);
    const words = await cutAt(
      webSocket,
      at,
      () => ask(answer),
      () => pause(20),
    );
    const { usage } = await booked(relay, before);
    assert.ok(
      usage && usage.inputTokens > 0n && usage.audioOutputTokens >= words,
      `${at}: ${usage?.audioOutputTokens}`,
    );
  }
});
