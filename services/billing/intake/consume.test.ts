import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as pace } from "node:timers/promises";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { query } from "#shared/testing/postgres.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { consumerName } from "./stream.ts";
import { serveAuthQuotaStub, type AuthQuotaStub } from "../testing/auth-quota-stub.ts";
import { startBilling, valueOf } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent } from "../testing/events.ts";
import { countLines, createLedger, findImbalance, readLedger, type TestLedger } from "../testing/ledger.ts";
import { startNats, type TestNats } from "../testing/nats.ts";

const resources = new AsyncDisposableStack();
let postgres: PostgresStore;
let nats: TestNats;
let stub: AuthQuotaStub;
let connection: NatsConnection;

before(async () => {
  ({ postgres } = resources.use(await startStores({ postgres: true })));
  nats = resources.use(await startNats());
  stub = resources.use(await serveAuthQuotaStub());
  connection = await nats.connect();
  resources.defer(() => connection.close());
});
after(() => resources.disposeAsync());

const places = (ledger: TestLedger) => ({ pool: ledger.pool, natsUrl: nats.url, authQuotaAddress: stub.address });

/** A ledger of its own and a stream without events. */
async function startClean(): Promise<TestLedger> {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  stub.posts.length = 0;
  stub.onPost = () => Promise.resolve();
  return await createLedger(postgres);
}

async function publish(payload: Uint8Array): Promise<void> {
  await until(
    "the stream takes it",
    () => jetstream(connection).publish(usageSubject, payload, { timeout: 1_000 }),
    20_000,
  );
}

const encoded = (count: number): Uint8Array[] => Array.from({ length: count }, () => encodeEvent(makeEvent()));

async function allBooked(ledger: TestLedger, count: number): Promise<void> {
  await until(`${count} lines`, async () => (await countLines(ledger.ownerUrl)) >= count, 30_000);
  assert.equal(await countLines(ledger.ownerUrl), count);
  assert.deepEqual(await findImbalance(ledger.ownerUrl), []);
}

async function allAcknowledged(): Promise<void> {
  const manager = await jetstreamManager(connection);
  await until(
    "every message is acknowledged",
    async () => {
      const { num_pending, num_ack_pending } = await manager.consumers.info(usageStream, consumerName);
      return num_pending === 0 && num_ack_pending === 0;
    },
    20_000,
  );
}

test("stream: file, limits, discard new, 14 days; consumer: explicit acks, delivered without end", async () => {
  await using ledger = await startClean();
  await using _billing = startBilling(places(ledger));
  const manager = await jetstreamManager(connection);
  const stream = await until("the stream", () => manager.streams.info(usageStream));
  const consumer = await until("the consumer", () => manager.consumers.info(usageStream, consumerName));
  const { subjects, storage, retention, discard, max_age, duplicate_window } = stream.config;
  assert.deepEqual(
    { subjects, storage, retention, discard, max_age, duplicate_window },
    {
      subjects: ["usage.v1.>"],
      storage: "file",
      retention: "limits",
      discard: "new",
      max_age: 14 * 86_400e9,
      duplicate_window: 120e9,
    },
  );
  const { ack_policy, ack_wait, max_deliver, max_ack_pending } = consumer.config;
  assert.deepEqual(
    { ack_policy, ack_wait, max_deliver, max_ack_pending },
    { ack_policy: "explicit", ack_wait: 60e9, max_deliver: -1, max_ack_pending: 1_024 },
  );
});

test("an event becomes a line, auth-quota is told, and the message is acknowledged", async () => {
  await using ledger = await startClean();
  await using _billing = startBilling(places(ledger));
  const event = makeEvent();
  await publish(encodeBatch([encodeEvent(event)]));
  await allBooked(ledger, 1);
  await allAcknowledged();
  const [post] = stub.posts;
  assert.deepEqual(
    post?.calls.map(({ rid, bookedNanos, isFinal }) => [rid, bookedNanos, isFinal]),
    [[event.rid, 400n, true]],
  );
  assert.deepEqual(
    post?.accounts.map(({ accountId, balanceNanos, version }) => [accountId, balanceNanos, version]),
    [["acct_test", -400n, 1n]],
  );
});

test("exactly once: what is published again and again, and delivered again, is charged once", async () => {
  await using ledger = await startClean();
  const records = encoded(40);
  {
    await using _billing = startBilling(places(ledger));
    for (let round = 0; round < 3; round += 1) {
      await publish(encodeBatch(records.slice(0, 30)));
      await publish(encodeBatch(records.slice(10).toReversed()));
    }
    await allBooked(ledger, 40);
    await allAcknowledged();
  }
  const manager = await jetstreamManager(connection);
  await manager.consumers.delete(usageStream, consumerName);
  await using again = startBilling(places(ledger));
  await until(
    "all six messages were delivered once more",
    async () => (await valueOf(again.metrics.duplicates)) === 180,
    20_000,
  );
  await allBooked(ledger, 40);
});

test("money invariant I9: no message is acknowledged before its commit", async () => {
  await using ledger = await startClean();
  await query(ledger.ownerUrl, "ALTER TABLE billing.key_spending RENAME TO away");
  {
    await using billing = startBilling(places(ledger));
    await publish(encodeBatch(encoded(3)));
    await until("booking has failed", async () => (await valueOf(billing.metrics.bookFailures)) >= 2);
    assert.ok(billing.reasons().some((reason) => reason.startsWith("booking: ")));
    const manager = await jetstreamManager(connection);
    const info = await manager.consumers.info(usageStream, consumerName);
    assert.equal(info.num_ack_pending, 1);
    assert.equal(info.ack_floor.stream_seq, 0);
  }
  await query(ledger.ownerUrl, "ALTER TABLE billing.away RENAME TO key_spending");
  // What it had in hand was given back at its stop: the next one need not wait for the end of the ack wait.
  await using _next = startBilling(places(ledger));
  await allBooked(ledger, 3);
  await allAcknowledged();
});

/** A way to NATS on which what the server says can be kept back, and which knows what it is told meanwhile. */
async function startWay() {
  let isHeld = false;
  let told = "";
  let kept: (() => void)[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(nats.port, "127.0.0.1");
    for (const socket of [near, far]) sockets.add(socket.on("error", () => undefined));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    near.on("data", (bytes) => {
      if (isHeld) told += String(bytes);
      far.write(bytes);
    });
    far.on("data", (bytes) => (isHeld ? kept.push(() => near.write(bytes)) : near.write(bytes)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `nats://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold: () => void (isHeld = true),
    told: () => told,
    release: () => {
      isHeld = false;
      for (const pass of kept) pass();
      kept = [];
    },
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test("a stop leaves nothing behind: messages that are on their way to it by then are given back at once", async () => {
  await using ledger = await startClean();
  using way = await startWay();
  const billing = startBilling({ ...places(ledger), natsUrl: way.url });
  const manager = await jetstreamManager(connection);
  const info = () => manager.consumers.info(usageStream, consumerName);
  await until("billing waits for messages", async () => (await info()).num_waiting > 0);
  way.hold();
  await publish(encodeBatch(encoded(2)));
  await publish(encodeBatch(encoded(1)));
  await until("they are on their way", async () => (await info()).num_ack_pending === 2);
  const stopped = billing[Symbol.asyncDispose]();
  await until("it asks for no more", () => way.told().includes("UNSUB "));
  way.release();
  await stopped;
  // The time for an acknowledgement is a minute.
  await using _next = startBilling(places(ledger));
  await allBooked(ledger, 3);
  await allAcknowledged();
});

test("garbage on the stream goes to quarantine whole, is acknowledged, and holds up nothing", async () => {
  await using ledger = await startClean();
  await using _billing = startBilling(places(ledger));
  await until("the stream", async () => (await jetstreamManager(connection)).streams.info(usageStream));
  const garbage = Buffer.from("this is not protobuf");
  await publish(garbage);
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 2);
  await allAcknowledged();
  const { quarantine } = await readLedger(ledger.ownerUrl);
  assert.equal(quarantine.length, 1);
  assert.match(quarantine[0] ?? "", /^unreadable: /);
});

test("a stream that is deleted under billing is declared again, and later events are booked", async () => {
  await using ledger = await startClean();
  await using _billing = startBilling(places(ledger));
  await publish(encodeBatch(encoded(1)));
  await allBooked(ledger, 1);
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream);
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 3);
});

test("a consumer that is deleted is declared again; what it had booked before is recognised", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 2);
  const manager = await jetstreamManager(connection);
  await manager.consumers.delete(usageStream, consumerName);
  await publish(encodeBatch(encoded(1)));
  await allBooked(ledger, 3);
  assert.equal(await valueOf(billing.metrics.duplicates), 2);
});

test("NATS restarted without its data: the stream is declared again, and later events are booked", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  await publish(encodeBatch(encoded(1)));
  await allBooked(ledger, 1);
  await nats.wipe();
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 3);
  await until("billing is ready again", () => billing.reasons().length === 0);
});

test("billing started without NATS says so, and begins to book when NATS comes", async () => {
  await using ledger = await startClean();
  await nats.kill();
  await using billing = startBilling(places(ledger));
  await until("the reason is told", () => billing.reasons().some((reason) => reason.startsWith("NATS: ")));
  await nats.restart();
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 2);
});

test("PostgreSQL killed and restarted under load: every event is booked, once", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  let published = 0;
  let isLoading = true;
  const load = (async () => {
    while (isLoading) {
      await publish(encodeBatch(encoded(20)));
      published += 20;
      await pace(2);
    }
  })();
  await until("some are booked", async () => (await countLines(ledger.ownerUrl)) > 100, 30_000);
  await postgres.kill();
  const publishedBefore = published;
  await until("the loss is told", () => billing.reasons().some((reason) => reason.startsWith("booking: ")), 20_000);
  await until("load goes on", () => published > publishedBefore + 100);
  await postgres.restart();
  const publishedThen = published;
  await until("load goes on", () => published > publishedThen + 100);
  isLoading = false;
  await load;
  await allBooked(ledger, published);
  await allAcknowledged();
});

test("auth-quota away: booking goes on, messages are acknowledged, failures are counted", async () => {
  await using ledger = await startClean();
  stub.onPost = () => Promise.reject(new Error("away"));
  await using billing = startBilling(places(ledger));
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 2);
  await allAcknowledged();
  assert.ok((await valueOf(billing.metrics.postFailures)) >= 1);
});

test("accounts and keys that could not be told of are told of by the repair, and only once", async () => {
  await using ledger = await startClean();
  stub.onPost = () => Promise.reject(new Error("away"));
  await using billing = startBilling(places(ledger));
  await publish(encodeBatch(encoded(2)));
  await allBooked(ledger, 2);
  await allAcknowledged();
  stub.onPost = () => Promise.resolve();
  await billing.pusher.repair(ledger.pool);
  const told = stub.posts.flatMap(({ accounts }) =>
    accounts.map(({ accountId, balanceNanos }) => [accountId, balanceNanos]),
  );
  assert.deepEqual(told, [["acct_test", -800n]]);
  const spent = stub.posts.flatMap(({ keys }) => keys.map(({ keyId, spentNanos }) => [keyId, spentNanos]));
  assert.deepEqual(spent, [["key_test", 800n]]);
  const { length } = stub.posts;
  await billing.pusher.repair(ledger.pool);
  assert.equal(stub.posts.length, length);
});
