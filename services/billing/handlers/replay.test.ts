import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { nanos, type NatsConnection } from "@nats-io/transport-node";
import type { ReplayResponse } from "#proto/billing/v1/billing_pb.ts";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { createRid } from "#shared/money/rid.ts";
import { type Databases, sharePostgres } from "#shared/testing/share.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { createHealth } from "#shared/process/health.ts";
import { keepConnected, type NatsLink } from "../intake/nats.ts";
import { consumerName, declareStream } from "../intake/stream.ts";
import { startApp as startAppOn } from "../testing/app.ts";
import { serveAuthQuotaStub, type AuthQuotaStub } from "../testing/auth-quota-stub.ts";
import { startBilling } from "../testing/billing.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";
import { countLines, findImbalance, readLedger } from "../testing/ledger.ts";
import { startNats, type TestNats } from "../testing/nats.ts";

const resources = new AsyncDisposableStack();
let postgres: Databases;
let nats: TestNats;
let stub: AuthQuotaStub;
let link: NatsLink;
let connection: NatsConnection;

before(async () => {
  postgres = resources.use(await sharePostgres());
  nats = resources.use(await startNats());
  stub = resources.use(await serveAuthQuotaStub());
  link = resources.use(keepConnected(nats.url, { health: createHealth([]), log: createLog("test", "silent") }));
  connection = (await until("NATS is connected", () => link.current())) ?? assert.fail();
});
after(() => resources.disposeAsync());

/** The calls on a ledger of their own, and a stream without events. */
async function startClean() {
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream).catch(() => false);
  await declareStream(manager, { replicas: 1, maxBytes: 2 ** 26, ackWaitMs: 60_000 });
  return await startAppOn(postgres, { nats: link });
}
type App = Awaited<ReturnType<typeof startClean>>;

async function publish(...events: (EventFields | Uint8Array)[]): Promise<void> {
  const records = events.map((event) => (event instanceof Uint8Array ? event : encodeEvent(makeEvent(event))));
  await jetstream(connection).publish(usageSubject, encodeBatch(records));
}

type Request = Parameters<App["streams"]["replay"]>[0];

async function replay({ streams }: App, request: Request): Promise<ReplayResponse & { rids: string[] }> {
  const responses = await Array.fromAsync(streams.replay(request));
  const last = responses.at(-1);
  assert.ok(last?.isDone);
  assert.ok(responses.slice(0, -1).every(({ isDone }) => !isDone));
  return { ...last, rids: responses.flatMap(({ missingRids }) => missingRids) };
}

const figures = ({ events, known, missing, missingNanos, rejected }: ReplayResponse): bigint[] => [
  events,
  known,
  missing,
  missingNanos,
  rejected,
];

test("events that the consumer was moved past are found by a dry run, booked once by a replay, known afterwards", async () => {
  await using app = await startClean();
  const places = { pool: app.ledger.pool, natsUrl: nats.url, authQuotaAddress: stub.address };
  await publish({}, {}, {});
  {
    await using _billing = startBilling(places);
    await until("three lines", async () => (await countLines(app.ledger.ownerUrl)) === 3);
  }
  const rids = [createRid(), createRid()];
  await publish(...rids.map((rid) => ({ rid })));
  const manager = await jetstreamManager(connection);
  await manager.consumers.delete(usageStream, consumerName);
  await manager.consumers.add(usageStream, {
    durable_name: consumerName,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.New,
    ack_wait: nanos(60_000),
    max_deliver: -1,
  });
  await using _billing = startBilling(places);
  await publish({});
  await until("the event behind them", async () => (await countLines(app.ledger.ownerUrl)) === 4);

  const dry = await replay(app, { dryRun: true });
  assert.deepEqual(figures(dry), [6n, 4n, 2n, 800n, 0n]);
  assert.deepEqual(dry.rids.toSorted(), rids.toSorted());
  assert.equal(await countLines(app.ledger.ownerUrl), 4);
  assert.equal(app.told.length, 0);

  assert.deepEqual(figures(await replay(app, {})), [6n, 4n, 2n, 800n, 0n]);
  assert.equal(await countLines(app.ledger.ownerUrl), 6);
  assert.deepEqual(
    app.told.flatMap(({ calls }) => calls.map(({ rid }) => rid)).toSorted(),
    rids.toSorted(),
    "auth-quota is told of the calls",
  );
  assert.deepEqual(figures(await replay(app, {})), [6n, 6n, 0n, 0n, 0n]);
  assert.deepEqual(figures(await replay(app, { dryRun: true })), [6n, 6n, 0n, 0n, 0n]);
  assert.deepEqual(await findImbalance(app.ledger.ownerUrl), []);
});

test("many events in many messages: batches are bounded, an event that came twice is missing once", async () => {
  await using app = await startClean();
  const records = Array.from({ length: 1_300 }, () => encodeEvent(makeEvent()));
  await publish(...records.slice(0, 1_200));
  await publish(...records.slice(0, 100), ...records.slice(1_200));
  const rid = createRid();
  await publish({ rid, kind: RecordKind.PROVISIONAL, outputTokens: 1n });
  await publish({ rid });
  for (const dryRun of [true, false]) {
    const responses = await Array.fromAsync(app.streams.replay({ dryRun }));
    assert.ok(responses.every(({ missingRids }) => missingRids.length <= 500));
    const last = responses.at(-1);
    assert.deepEqual(last && figures(last).slice(0, 2), [1_402n, 101n]);
    assert.equal(last?.missingNanos, 1_301n * 400n);
  }
  assert.equal(await countLines(app.ledger.ownerUrl), 1_301);
});

test("a time and an account bound what is read; later events are left alone", async () => {
  await using app = await startClean();
  await publish({}, { accountId: "acct_2", keyId: "key_2" });
  const manager = await jetstreamManager(connection);
  const { timestamp } = await manager.streams
    .getMessage(usageStream, { seq: 1 })
    .then((found) => found ?? assert.fail());
  const betweenMs = Date.parse(timestamp) + 5;
  await until("time has passed", () => Date.now() > betweenMs + 5);
  await publish({}, {}, Buffer.from("rubbish"));
  const between = timestampFromMs(betweenMs);
  const missing = async (request: Request) => (await replay(app, { ...request, dryRun: true })).missing;
  assert.equal(await missing({}), 4n);
  assert.equal(await missing({ until: between }), 2n);
  assert.equal(await missing({ from: between }), 2n);
  assert.equal(await missing({ accountId: "acct_2" }), 1n);
  assert.equal(await missing({ accountId: "acct_2", from: between }), 0n);
  assert.equal(await missing({ from: timestampFromMs(Date.now() + 60_000) }), 0n);
  const ofOne = await replay(app, { accountId: "acct_test", until: between });
  assert.deepEqual(figures(ofOne), [1n, 0n, 1n, 400n, 0n]);
  assert.equal(await countLines(app.ledger.ownerUrl), 1);
});

test("what cannot be booked is counted; a replay puts it into quarantine once, a dry run does not", async () => {
  await using app = await startClean();
  const rid = createRid();
  await publish({ rid }, { rid, outputTokens: 21n }, { costNanos: 1n }, Buffer.from("rubbish"));
  assert.deepEqual(figures(await replay(app, { dryRun: true })), [4n, 0n, 1n, 400n, 3n]);
  assert.deepEqual((await readLedger(app.ledger.ownerUrl)).quarantine, []);
  await replay(app, {});
  assert.deepEqual(figures(await replay(app, {})), [4n, 1n, 0n, 0n, 3n]);
  const reasons = (await readLedger(app.ledger.ownerUrl)).quarantine.map((reason) => reason.split(":")[0]);
  assert.deepEqual(new Set(reasons), new Set(["content_conflict", "cost_mismatch", "unreadable"]));
  assert.equal(reasons.length, 3);
});

test("an empty stream, one whose last messages were deleted, and times that make no sense", async () => {
  await using app = await startClean();
  assert.deepEqual(figures(await replay(app, {})), [0n, 0n, 0n, 0n, 0n]);
  await publish({});
  await publish({});
  const manager = await jetstreamManager(connection);
  await manager.streams.deleteMessage(usageStream, 2);
  assert.deepEqual(figures(await replay(app, { dryRun: true })), [1n, 0n, 1n, 400n, 0n]);
  const at = timestampFromMs(5);
  const refused = { code: "invalid_argument", message: /^until must be after from/ };
  await assert.rejects(replay(app, { from: at, until: at }), refused);
});

test("a caller that leaves ends the replay: nothing more is booked, and its consumer is gone", async () => {
  await using app = await startClean();
  for (let message = 0; message < 30; message += 1) {
    await publish(...Array.from({ length: 100 }, () => ({ endpoint: "e".repeat(2_000) })));
  }
  const manager = await jetstreamManager(connection);
  const consumers = async () => (await manager.consumers.list(usageStream).next()).length;
  assert.equal(await consumers(), 1);
  for await (const { missing } of app.streams.replay({})) {
    assert.equal(missing, 500n);
    break;
  }
  await until("its consumer is gone", async () => (await consumers()) === 1);
  await until("every connection is idle", () => app.ledger.pool.idleCount === app.ledger.pool.totalCount);
  const lines = await countLines(app.ledger.ownerUrl);
  assert.ok(lines < 3_000 && lines % 500 === 0, `${lines} lines`);
  assert.equal((await replay(app, {})).missing, BigInt(3_000 - lines));
});

test("while NATS or its stream is away, a replay is unavailable", async () => {
  await using app = await startClean();
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(usageStream);
  await assert.rejects(replay(app, {}), { code: "unavailable", message: /usage stream cannot be read/ });
  await using alone = await startAppOn(postgres);
  await assert.rejects(replay(alone, {}), { code: "unavailable", message: /NATS is not connected/ });
});
