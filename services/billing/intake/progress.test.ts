import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { getProgress } from "./progress.ts";
import { consumerName, declareStream, possibleReplicas } from "./stream.ts";
import { startNats, type TestNats } from "../testing/nats.ts";

const resources = new AsyncDisposableStack();
let nats: TestNats;
let connection: NatsConnection;
before(async () => {
  nats = resources.use(await startNats());
  connection = await nats.connect();
  resources.defer(() => connection.close());
});
after(() => resources.disposeAsync());

const link = { current: () => connection, [Symbol.asyncDispose]: async () => undefined };

test("progress: no stream, then messages that nobody has booked, then all acknowledged but one, then all", async () => {
  assert.deepEqual(await getProgress(link), { lastSequence: 0n, bookedSequence: 0n });
  await declareStream(await jetstreamManager(connection), { replicas: 1, maxBytes: 2 ** 24, ackWaitMs: 60_000 });
  const stream = jetstream(connection);
  for (let count = 0; count < 3; count += 1) await stream.publish(usageSubject, Buffer.from([count]));
  assert.deepEqual(await getProgress(link), { lastSequence: 3n, bookedSequence: 0n });
  const consumer = await stream.consumers.get(usageStream, consumerName);
  const first = await consumer.next();
  const second = await consumer.next();
  const third = await consumer.next();
  await second?.ackAck();
  await third?.ackAck();
  assert.deepEqual(await getProgress(link), { lastSequence: 3n, bookedSequence: 0n }, "the first is still in hand");
  await first?.ackAck();
  await until("all is booked", async () => (await getProgress(link)).bookedSequence === 3n);
});

test("a single server is asked for one copy, a cluster for as many as are wanted", async () => {
  assert.equal(possibleReplicas(connection.info, 3), 1);
  assert.equal(possibleReplicas({ cluster: "c" }, 3), 3);
  assert.equal(possibleReplicas({ cluster: "c" }, 1), 1);
});

test("without NATS there is no answer, rather than a wrong one", async () => {
  const away = { current: () => undefined, [Symbol.asyncDispose]: async () => undefined };
  await assert.rejects(getProgress(away), { code: "unavailable" });
});
