import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { jetstream, jetstreamManager, type JetStreamClient } from "@nats-io/jetstream";
import { connect, type MsgHdrs } from "@nats-io/transport-node";
import { UsageBatchSchema, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { keepConnected } from "#shared/stores/nats.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { createPublisher, type Publisher } from "./publish.ts";
import { listeningLog } from "../testing/fakes.ts";

const recordOf = (rid: string): Uint8Array => toBinary(UsageRecordedSchema, create(UsageRecordedSchema, { rid }));
const ridsIn = (payload: Uint8Array): string[] => fromBinary(UsageBatchSchema, payload).events.map(({ rid }) => rid);
const numbered = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, at) => `rid-${from + at}`);

/** A publisher over what the test gives as the way to NATS, and what it counted and logged. */
function startPublisher(client: () => JetStreamClient | undefined) {
  const counted = { published: 0, failed: 0, dropped: 0 };
  const counts = {
    published: (records: number) => void (counted.published += records),
    failed: () => void (counted.failed += 1),
    dropped: () => void (counted.dropped += 1),
  };
  const { log, lines } = listeningLog();
  const publisher = createPublisher(client, "session-1", counts, log);
  return { publisher, counted, lines, [Symbol.asyncDispose]: () => publisher[Symbol.asyncDispose]() };
}

const publishAll = ({ publish }: Publisher, rids: string[]): void => rids.forEach((rid) => publish(recordOf(rid)));

type Try = { id: string | undefined; time: string; payload: Uint8Array; acknowledge: () => void; refuse: () => void };

/** A client of JetStream in the hands of the test: each try waits until the test says what becomes of it. */
function handedClient() {
  const tries: Try[] = [];
  type Given = { msgID?: string; headers?: MsgHdrs };
  const publish = (_subject: string, payload: Uint8Array, { msgID, headers }: Given): Promise<unknown> => {
    const outcome = Promise.withResolvers<unknown>();
    tries.push({
      id: msgID,
      time: headers?.get("ce-time") ?? "",
      payload,
      acknowledge: () => outcome.resolve({}),
      refuse: () => outcome.reject(new Error("no responders")),
    });
    return outcome.promise;
  };
  return { tries, client: () => ({ publish }) as unknown as JetStreamClient };
}

test("records are gathered into batches of at most 256, numbered from 0 under the name of the relay's session", async () => {
  const { tries, client } = handedClient();
  await using started = startPublisher(client);
  publishAll(started.publisher, numbered(0, 600));
  await until("all are on their way", () => tries.length === 3);
  assert.deepEqual(
    tries.map(({ id, payload }) => [id, ridsIn(payload).length]),
    [
      ["session-1:0", 256],
      ["session-1:1", 256],
      ["session-1:2", 88],
    ],
  );
  assert.deepEqual(
    tries.flatMap(({ payload }) => ridsIn(payload)),
    numbered(0, 600),
  );
  assert.equal(started.publisher.waiting(), 600);
  for (const { acknowledge } of tries) acknowledge();
  await until("all are acknowledged", () => started.publisher.waiting() === 0);
  assert.deepEqual(started.counted, { published: 600, failed: 0, dropped: 0 });
});

test("at most four batches are under way, the next one leaves when one of them has arrived", async () => {
  const { tries, client } = handedClient();
  await using started = startPublisher(client);
  publishAll(started.publisher, numbered(0, 256 * 6));
  await new Promise(setImmediate);
  assert.equal(tries.length, 4);
  tries[2]?.acknowledge();
  await until("the fifth is on its way", () => tries.length === 5);
  for (let at = 0; at < 6; at += 1) {
    await until("there is one more", () => tries.length > at);
    tries[at]?.acknowledge();
  }
  await started.publisher.drain(5_000);
  assert.equal(started.publisher.waiting(), 0);
});

test("records are gathered for their time also while batches arrive all along", async () => {
  const { tries, client } = handedClient();
  await using started = startPublisher(client);
  const startedAtMs = performance.now();
  let published = 0;
  await until("it has gone on for a while", () => {
    publishAll(started.publisher, [`rid-${published++}`]);
    for (const { acknowledge } of tries) acknowledge();
    return performance.now() - startedAtMs > 500;
  });
  const most = (performance.now() - startedAtMs) / 50 + 1;
  assert.ok(tries.length <= most, `${tries.length} batches for ${published} records`);
});

test("a try that fails is repeated with the same id and the same bytes, and logged once however often", async () => {
  const { tries, client } = handedClient();
  let isConnected = false;
  await using started = startPublisher(() => (isConnected ? client() : undefined));
  publishAll(started.publisher, ["a", "b"]);
  await until("there is no way to NATS", () => started.counted.failed === 1);
  isConnected = true;
  await until("it is tried", () => tries.length === 1);
  tries[0]?.refuse();
  await until("it is tried again", () => tries.length === 2);
  assert.equal(started.publisher.waiting(), 2);
  tries[1]?.acknowledge();
  await until("it has arrived", () => started.publisher.waiting() === 0);
  assert.deepEqual(
    tries.map(({ id }) => id),
    ["session-1:0", "session-1:0"],
  );
  assert.deepEqual(tries[0]?.payload, tries[1]?.payload);
  assert.match(tries[0]?.time ?? "", /Z$/);
  assert.equal(tries[0]?.time, tries[1]?.time);
  assert.deepEqual(started.counted, { published: 2, failed: 2, dropped: 0 });
  assert.deepEqual(
    started.lines.map(({ level }) => level),
    ["warn", "info"],
  );
});

test("beyond 100,000 waiting records the next are dropped here and counted; the spool and the outbox have them", async () => {
  await using started = startPublisher(() => undefined);
  const record = recordOf("r");
  for (let count = 0; count < 100_003; count += 1) started.publisher.publish(record);
  assert.equal(started.publisher.waiting(), 100_000);
  assert.equal(started.counted.dropped, 3);
});

test("draining ends when nothing waits, or with its time", async () => {
  const { tries, client } = handedClient();
  await using started = startPublisher(client);
  await started.publisher.drain(60_000);
  publishAll(started.publisher, ["a"]);
  await started.publisher.drain(1);
  assert.equal(started.publisher.waiting(), 1);
  const drained = started.publisher.drain(60_000);
  tries[0]?.acknowledge();
  await drained;
  assert.equal(started.publisher.waiting(), 0);
});

test("through a NATS that is not ready, killed and restarted: everything arrives, each batch once under its id", async () => {
  await using stores = await startStores({ nats: true });
  const { log } = listeningLog();
  await using link = keepConnected(stores.nats.url, { name: "test", onState: () => undefined, log });
  await using started = startPublisher(() => {
    const connection = link.current();
    return connection && jetstream(connection);
  });
  const { publisher, counted } = started;

  publishAll(publisher, numbered(0, 10));
  await until("a try fails: nobody has declared the stream", () => counted.failed > 0);
  await declareStream(stores.nats.url);
  await until("the first records are acknowledged", () => counted.published === 10);

  publishAll(publisher, numbered(10, 1_500));
  await stores.nats.kill();
  publishAll(publisher, numbered(1_500, 2_000));
  const failedBefore = counted.failed;
  await until("tries fail while NATS is dead", () => counted.failed > failedBefore, 20_000);
  assert.ok(publisher.waiting() >= 500);
  await stores.nats.restart();
  await publisher.drain(60_000);
  assert.equal(publisher.waiting(), 0);
  assert.equal(counted.published, 2_000);

  const messages = await readStream(stores.nats.url);
  assert.deepEqual(messages.flatMap(({ rids }) => rids).toSorted(), numbered(0, 2_000).toSorted());
  for (const { id, event, source } of messages) assert.deepEqual([event, source], [id, "/relay"]);
  const numbers = messages.map(({ id }) => Number(/^session-1:(\d+)$/.exec(id)?.[1])).toSorted((a, b) => a - b);
  assert.deepEqual(
    numbers,
    Array.from(numbers, (_, index) => index),
    "no id twice, none left out",
  );
});

async function declareStream(url: string): Promise<void> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: usageStream, subjects: [usageSubject], duplicate_window: 120_000_000_000 });
  await connection.close();
}

type Read = { id: string; event: string; source: string; rids: string[] };

async function readStream(url: string): Promise<Read[]> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  const { state } = await manager.streams.info(usageStream);
  const messages: Read[] = [];
  for (let sequence = state.first_seq; sequence <= state.last_seq; sequence += 1) {
    const stored = await manager.streams.getMessage(usageStream, { seq: sequence });
    assert.ok(stored);
    const [id, event, source] = ["Nats-Msg-Id", "ce-id", "ce-source"].map((name) => stored.header.get(name));
    messages.push({ id: id ?? "", event: event ?? "", source: source ?? "", rids: ridsIn(stored.data) });
  }
  await connection.close();
  return messages;
}

test("the age of the oldest record that waits is that of its batch, until it is acknowledged", async () => {
  const { tries, client } = handedClient();
  await using started = startPublisher(client);
  const { publisher } = started;
  assert.equal(publisher.oldestMs(), 0);
  publishAll(publisher, ["a"]);
  await until("it is on its way", () => tries.length === 1);
  await until("it has waited", () => publisher.oldestMs() > 30);
  publishAll(publisher, ["b"]);
  assert.ok(publisher.oldestMs() > 30, "of the older one");
  tries[0]?.acknowledge();
  await until("the first is acknowledged", () => publisher.waiting() === 1);
  await until("the second is on its way", () => tries.length === 2);
  tries[1]?.acknowledge();
  await until("nothing waits", () => publisher.waiting() === 0);
  assert.equal(publisher.oldestMs(), 0);
});

test("a queue that never empties does not make its records older than they are", async () => {
  const { tries, client } = handedClient();
  await using started = startPublisher(client);
  const { publisher } = started;
  publishAll(publisher, numbered(0, 256 * 4));
  publishAll(publisher, numbered(256 * 4, 256 * 5));
  await until("they have waited", () => publisher.oldestMs() > 30);
  const newestSinceMs = performance.now();
  publishAll(publisher, numbered(256 * 5, 256 * 6));
  for (let at = 0; at < 5; at += 1) {
    await until("there is one more", () => tries.length > at);
    tries[at]?.acknowledge();
  }
  await until("only the newest wait", () => publisher.waiting() === 256);
  const oldestMs = publisher.oldestMs();
  assert.ok(oldestMs > 0 && oldestMs <= performance.now() - newestSinceMs, `${oldestMs} ms`);
});

test("a record published alone is told apart from the others, until JetStream has it or this process ends", async () => {
  const { tries, client } = handedClient();
  const started = startPublisher(client);
  started.publisher.publish(recordOf("gathered"));
  const stored = started.publisher.publishAlone(recordOf("alone"));
  assert.deepEqual(
    tries.map(({ payload }) => ridsIn(payload)),
    [["alone"]],
  );
  tries[0]?.acknowledge();
  assert.equal(await stored, true);
  const refused = started.publisher.publishAlone(recordOf("never"));
  tries.at(-1)?.refuse();
  await started[Symbol.asyncDispose]();
  assert.equal(await refused, false);
});
