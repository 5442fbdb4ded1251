import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { jetstream, jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { consumerName, declareStream } from "./stream.ts";
import { startNats } from "../testing/nats.ts";
import { trimStream } from "./trim.ts";

const resources = new AsyncDisposableStack();
let connection: NatsConnection;
let manager: JetStreamManager;
before(async () => {
  const nats = resources.use(await startNats());
  connection = await nats.connect();
  resources.defer(() => connection.close());
  manager = await jetstreamManager(connection);
});
after(() => resources.disposeAsync());

const maxBytes = 1_048_576;

beforeEach(async () => {
  await manager.streams.delete(usageStream).catch(() => false);
  await declareStream(manager, { replicas: 1, maxBytes, ackWaitMs: 60_000 });
});

/** Publishes messages of 10 KiB and acknowledges the first of them. */
async function fill(messages: number, booked: number): Promise<void> {
  const stream = jetstream(connection);
  for (let count = 0; count < messages; count += 1) await stream.publish(usageSubject, Buffer.alloc(10_240, count));
  const consumer = await stream.consumers.get(usageStream, consumerName);
  for (let count = 0; count < booked; count += 1) await (await consumer.next())?.ackAck();
}

const trim = async (): Promise<number> => {
  const stream = await manager.streams.info(usageStream);
  return trimStream(manager, stream, await manager.consumers.info(usageStream, consumerName));
};
const firstKept = async (): Promise<number> => (await manager.streams.info(usageStream)).state.first_seq;

test("a stream below four fifths of its size is left alone", async () => {
  await fill(50, 50);
  assert.equal(await trim(), 0);
  assert.equal(await firstKept(), 1);
});

test("a stream that is nearly full loses its oldest booked messages, down to three fifths", async () => {
  await fill(90, 90);
  const removed = await trim();
  const { state } = await manager.streams.info(usageStream);
  assert.equal(state.messages, 90 - removed);
  assert.ok(state.bytes <= 0.6 * maxBytes && state.bytes > 0.5 * maxBytes, `${state.bytes} bytes are left`);
  assert.equal(await trim(), 0, "once is enough");
});

test("what is not booked stays, however full the stream is", async () => {
  await fill(95, 7);
  assert.equal(await trim(), 7);
  assert.equal(await firstKept(), 8);
  assert.equal(await trim(), 0);
});
