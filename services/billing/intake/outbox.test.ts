import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createRid, ridTimeMs } from "#shared/money/rid.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { bookBatch } from "./book.ts";
import { readMessage } from "../records/read-event.ts";
import { serveApp } from "../testing/app.ts";
import { serveAuthQuotaStub, type AuthQuotaStub } from "../testing/auth-quota-stub.ts";
import { bookingOn, startBilling, valueOf } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent } from "../testing/events.ts";
import { createLedger, readLedger, type TestLedger } from "../testing/ledger.ts";
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

async function startClean(): Promise<TestLedger> {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  stub.posts.length = 0;
  stub.unposted.clear();
  return await createLedger(postgres);
}

async function streamMessages(): Promise<number> {
  const manager = await jetstreamManager(connection);
  const { state } = await manager.streams.info(usageStream);
  return state.messages;
}

async function lastMessage() {
  const manager = await jetstreamManager(connection);
  const stored = await manager.streams.getMessage(usageStream, { last_by_subj: usageSubject });
  assert.ok(stored);
  return stored;
}

const told = () =>
  stub.posts.flatMap(({ calls }) => calls.map(({ rid, bookedNanos, isFinal }) => [rid, bookedNanos, isFinal]));

test("a charge that no event ever brought is published to the stream, booked and cleared", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  await until("the stream", async () => (await streamMessages()) === 0);
  const events = [makeEvent(), makeEvent()];
  for (const event of events) stub.unposted.set(event.rid, encodeEvent(event));
  await billing.outboxPass();
  await until("auth-quota's outbox is empty", () => stub.unposted.size === 0);
  const { lines } = await readLedger(ledger.ownerUrl);
  assert.deepEqual(new Set(lines.map(({ rid }) => rid)), new Set(events.map(({ rid }) => rid)));
  assert.equal(await valueOf(billing.metrics.republished), 2);

  const { header } = await lastMessage();
  const [id, event, source, time] = ["Nats-Msg-Id", "ce-id", "ce-source", "ce-time"].map((name) => header.get(name));
  assert.match(id ?? "", /^outbox:[0-9a-f]{64}$/);
  assert.deepEqual([event, source], [id, "/billing"]);
  // Of the events, not of the pass: each try of them is the same message.
  const newestMs = Math.max(...events.map(({ rid }) => ridTimeMs(rid) ?? 0));
  assert.equal(time, new Date(newestMs).toISOString());
});

test("a record that stays unconfirmed is not published again at every pass", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  await until("the stream", async () => (await streamMessages()) === 0);
  const event = makeEvent({ accountId: "acct_slow" });
  stub.unposted.set(event.rid, encodeEvent(event));
  const pool = ledger.pool;
  // Booked, but told in vain: the record stays in the outbox.
  stub.onPost = () => Promise.reject(new Error("away"));
  await billing.outboxPass();
  assert.equal(await streamMessages(), 1);
  for (let pass = 0; pass < 5; pass += 1) await billing.outboxPass();
  assert.equal(await streamMessages(), 1);
  stub.onPost = () => Promise.resolve();
  await until("it is booked", async () => (await pool.query("SELECT 1 FROM billing.ledger_line")).rowCount === 1);
  await billing.outboxPass();
  assert.deepEqual(told().at(-1), [event.rid, 400n, true]);
});

test("a charge that is booked already is told directly, with the balance, and not published", async () => {
  await using ledger = await startClean();
  const event = makeEvent({ accountId: "acct_booked" });
  const record = encodeEvent(event);
  await bookBatch(bookingOn(ledger.pool), readMessage(encodeBatch([record]), 1, Date.now()));
  await using billing = startBilling(places(ledger));
  await until("the stream", async () => (await streamMessages()) === 0);
  stub.unposted.set(event.rid, record);
  await billing.outboxPass();
  assert.deepEqual(told(), [[event.rid, 400n, true]]);
  assert.equal(stub.balanceOf("acct_booked"), -400n);
  assert.equal(await streamMessages(), 0);
});

test("a provisional whose final is booked is told as final; a final after a provisional is published", async () => {
  await using ledger = await startClean();
  const booking = bookingOn(ledger.pool);
  const [ended, silent] = [createRid(), createRid()];
  const endedProvisional = encodeEvent(makeEvent({ rid: ended, kind: RecordKind.PROVISIONAL, outputTokens: 1n }));
  const silentFinal = encodeEvent(makeEvent({ rid: silent }));
  const first = [
    encodeEvent(makeEvent({ rid: ended })),
    encodeEvent(makeEvent({ rid: silent, kind: RecordKind.PROVISIONAL, outputTokens: 1n })),
  ];
  await bookBatch(booking, readMessage(encodeBatch(first), 1, Date.now()));
  await using billing = startBilling(places(ledger));
  await until("the stream", async () => (await streamMessages()) === 0);
  stub.unposted.set(ended, endedProvisional);
  stub.unposted.set(silent, silentFinal);
  await billing.outboxPass();
  await until("auth-quota's outbox is empty", () => stub.unposted.size === 0);
  assert.deepEqual(
    new Map(told().map(([rid, ...rest]) => [rid, rest])),
    new Map([
      [ended, [400n, true]],
      [silent, [400n, true]],
    ]),
  );
  assert.equal(await streamMessages(), 1);
});

test("a charge that cannot be booked is quarantined, stays unconfirmed, and is cleared by a correction", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  await until("the stream", async () => (await streamMessages()) === 0);
  const event = makeEvent({ costNanos: 399n });
  stub.unposted.set(event.rid, encodeEvent(event));
  await billing.outboxPass();
  await billing.outboxPass();
  assert.deepEqual(told(), []);
  assert.equal(stub.unposted.size, 1);
  assert.equal((await readLedger(ledger.ownerUrl)).quarantine.length, 1);
  assert.equal(await streamMessages(), 0);

  await using app = await serveApp(ledger.pool, billing.pusher);
  await app.billing.correct({
    accountId: event.accountId,
    amountNanos: -400n,
    correctionId: "ticket-1",
    reason: "booked from quarantine",
    rid: event.rid,
  });
  await billing.outboxPass();
  assert.deepEqual(told(), [[event.rid, 400n, true]]);
  assert.equal(stub.unposted.size, 0);
});

test("while NATS is away nothing is lost: the pass waits, and a later one publishes", async () => {
  await using ledger = await startClean();
  await using billing = startBilling(places(ledger));
  await until("the stream", async () => (await streamMessages()) === 0);
  const event = makeEvent();
  stub.unposted.set(event.rid, encodeEvent(event));
  await nats.kill();
  await billing.outboxPass().catch(() => undefined);
  assert.equal(stub.unposted.size, 1);
  await nats.restart();
  await until(
    "it is booked and told",
    async () => {
      await billing.outboxPass();
      return stub.unposted.size === 0;
    },
    20_000,
  );
  assert.equal((await readLedger(ledger.ownerUrl)).lines.length, 1);
});
