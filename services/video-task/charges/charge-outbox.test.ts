import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { Registry } from "prom-client";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { UsageBatchSchema } from "#proto/usage/v1/usage_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { startStores, type Stores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { createMetrics } from "../metrics.ts";
import { createChargePass, type ChargeOutboxDeps } from "./charge-outbox.ts";
import { applyPoll, claimDue } from "../store/polls.ts";
import { claimMoneyEvents } from "../store/money-events.ts";
import { declareUsageStream, readStream, startLedgerDouble, type LedgerDouble } from "../testing/ledger-double.ts";
import { insertTask } from "../testing/polled-task.ts";
import { createTasksDatabase, type TasksDatabase } from "../testing/tasks-database.ts";
import type { Transition } from "../transition.ts";

let stores: Stores<{ nats: true; postgres: true }>;
let connection: NatsConnection;
let database: TasksDatabase;
let ledger: LedgerDouble;

before(async () => {
  stores = await startStores({ nats: true, postgres: true });
  connection = await connect({ servers: stores.nats.url });
});
after(async () => {
  await connection.close();
  await stores[Symbol.asyncDispose]();
});
beforeEach(async () => {
  database = await createTasksDatabase(stores.postgres);
  ledger = await startLedgerDouble();
  await declareUsageStream(connection);
});
afterEach(async () => {
  await (await jetstreamManager(connection)).streams.delete(usageStream);
  await ledger[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

/** A process that brings money into the ledger, its log and its metrics. */
function startReplica(given: Partial<ChargeOutboxDeps> = {}) {
  const lines: Record<string, unknown>[] = [];
  const log = createLog("test", "info", { write: (line) => void lines.push(JSON.parse(line)) });
  const metrics = createMetrics(new Registry());
  const deps = { pool: database.pool, billing: ledger.client, jetStream: () => jetstream(connection), ...given };
  return { pass: createChargePass({ confirmMs: 10, ...deps, metrics, log }), lines, metrics };
}

const allOf: Transition = { kind: "failed", code: "timeout", message: "late", watchMs: undefined };
const partOf: Transition = {
  kind: "completed",
  refundNanos: 200_000_000n,
  expiresAtMs: undefined,
  contentUrl: undefined,
};

/** A task that has ended with this; undefined: that runs. */
async function ended(transition?: Transition): Promise<string> {
  const rid = await insertTask(database.pool);
  if (!transition) return rid;
  const dues = await claimDue(database.pool, [{ upstream: undefined, slots: 1_000 }], 60_000);
  const due = dues.find((found) => found.rid === rid);
  assert.ok(due && (await applyPoll(database.pool, due, transition)));
  return rid;
}

async function eventsOf(rid: string): Promise<{ kind: number; isBooked: boolean; tries: number }[]> {
  const { rows } = await database.pool.query(
    `SELECT kind, booked_at IS NOT NULL AS "isBooked", tries FROM video_task.money_event WHERE rid = $1 ORDER BY kind`,
    [rid],
  );
  return rows;
}

const isAllBooked = async (rid: string) => (await eventsOf(rid)).every(({ isBooked }) => isBooked);
const linesOf = (rid: string) => ledger.lines.filter((line) => line.rid === rid).map((line) => line.amountNanos);
const makeDue = () =>
  database.pool.query("UPDATE video_task.money_event SET next_try_at = now() WHERE next_try_at IS NOT NULL");
const valueOf = async (metric: { get: () => Promise<{ values: { value: number }[] }> }) =>
  (await metric.get()).values.reduce((sum, { value }) => sum + value, 0);

/** One pass over everything that is not booked. */
async function passOver({ pass }: { pass: () => Promise<void> }): Promise<void> {
  await makeDue();
  await pass();
}

describe("a charge", () => {
  it("is published as it was accepted, and booked when the ledger has it", async () => {
    const rid = await ended();
    const replica = startReplica();
    await replica.pass();
    const [message] = await readStream(connection);
    assert.equal(message?.id, `video:${rid}:1`);
    assert.deepEqual(
      ["ce-id", "ce-source"].map((name) => message.header.get(name)),
      [message.id, "/video-task"],
    );
    const { events } = fromBinary(UsageBatchSchema, message?.data ?? new Uint8Array());
    assert.deepEqual(
      events.map((event) => [event.rid, event.costNanos]),
      [[rid, 800_000_000n]],
    );
    assert.equal(await isAllBooked(rid), false);
    await ledger.consume(connection);
    await passOver(replica);
    assert.equal(await isAllBooked(rid), true);
    await passOver(replica);
    assert.equal((await readStream(connection)).length, 1);
  });

  it("that the stream has lost is published again under another id, until the ledger has it", async () => {
    const rid = await ended();
    const replica = startReplica();
    for (let time = 0; time < 3; time += 1) {
      await passOver(replica);
      await (await jetstreamManager(connection)).streams.purge(usageStream);
    }
    await passOver(replica);
    assert.deepEqual(
      (await readStream(connection)).map(({ id }) => id),
      [`video:${rid}:4`],
    );
    await ledger.consume(connection);
    await passOver(replica);
    assert.deepEqual([await isAllBooked(rid), linesOf(rid)], [true, [-800_000_000n]]);
  });

  it("waits for NATS and for the stream, however long they are away", async () => {
    const rid = await ended();
    const away = startReplica({ jetStream: () => undefined });
    for (let time = 0; time < 3; time += 1) await passOver(away);
    assert.equal(await isAllBooked(rid), false);
    await (await jetstreamManager(connection)).streams.delete(usageStream);
    const back = startReplica();
    await passOver(back);
    assert.equal(await isAllBooked(rid), false);
    await declareUsageStream(connection);
    await passOver(back);
    await ledger.consume(connection);
    await passOver(back);
    assert.deepEqual([await isAllBooked(rid), linesOf(rid)], [true, [-800_000_000n]]);
    assert.ok(away.lines.length <= 2, "told, but not at each try");
  });

  it("of which a person has booked a correction by hand is not published any more", async () => {
    const rid = await ended();
    const replica = startReplica();
    await replica.pass();
    const correction = { kind: LineKind.CORRECTION, accountId: "acct_test", rid, reference: "by hand" };
    ledger.lines.push({ ...correction, amountNanos: 800_000_000n });
    await passOver(replica);
    assert.equal(await isAllBooked(rid), false);
    ledger.lines.push({ ...correction, amountNanos: -800_000_000n });
    await passOver(replica);
    assert.equal(await isAllBooked(rid), true);
  });
});

describe("a refund", () => {
  it("never comes before its charge is booked, then gives back all of it", async () => {
    const rid = await ended(allOf);
    const replica = startReplica();
    for (let time = 0; time < 3; time += 1) await passOver(replica);
    assert.deepEqual(ledger.asked, []);
    assert.deepEqual(
      (await eventsOf(rid)).map(({ tries }) => tries),
      [3, 0],
    );
    await ledger.consume(connection);
    // The ledger has it now, but as far as is written down here it is not booked.
    assert.deepEqual(ledger.asked, []);
    await passOver(replica);
    await passOver(replica);
    assert.deepEqual([await isAllBooked(rid), linesOf(rid)], [true, [-800_000_000n, 800_000_000n]]);
    assert.deepEqual(
      [await valueOf(replica.metrics.refunds), await valueOf(replica.metrics.refundedNanos)],
      [1, 800_000_000],
    );
    assert.equal(replica.lines.at(-1)?.["rid"], rid);
  });

  it("of a length that was not delivered gives back that much", async () => {
    const rid = await ended(partOf);
    const replica = startReplica();
    await replica.pass();
    await ledger.consume(connection);
    for (let time = 0; time < 2; time += 1) await passOver(replica);
    assert.deepEqual([await isAllBooked(rid), linesOf(rid)], [true, [-800_000_000n, 200_000_000n]]);
  });

  it("is asked for again while billing is away", async () => {
    const rid = await ended(allOf);
    const replica = startReplica();
    await replica.pass();
    await ledger.consume(connection);
    ledger.isAway = true;
    for (let time = 0; time < 2; time += 1) await passOver(replica);
    assert.deepEqual(
      (await eventsOf(rid)).map(({ isBooked }) => isBooked),
      [false, false],
    );
    ledger.isAway = false;
    await passOver(replica);
    ledger.isAway = true;
    for (let time = 0; time < 2; time += 1) await passOver(replica);
    assert.deepEqual(
      (await eventsOf(rid)).map(({ isBooked }) => isBooked),
      [true, false],
    );
    ledger.isAway = false;
    await passOver(replica);
    assert.deepEqual([await isAllBooked(rid), linesOf(rid)], [true, [-800_000_000n, 800_000_000n]]);
  });

  it("that billing refuses, because a person was faster, ends in an alarm", async () => {
    const rid = await ended(allOf);
    const replica = startReplica();
    await replica.pass();
    await ledger.consume(connection);
    const byHand = { kind: LineKind.REFUND, accountId: "acct_test", rid, reference: "by hand" };
    ledger.lines.push({ ...byHand, amountNanos: 800_000_000n });
    for (let time = 0; time < 3; time += 1) await passOver(replica);
    assert.deepEqual([await isAllBooked(rid), linesOf(rid)], [true, [-800_000_000n, 800_000_000n]]);
    assert.deepEqual([await valueOf(replica.metrics.refusedMoney), await valueOf(replica.metrics.refunds)], [1, 0]);
    assert.deepEqual(
      replica.lines.filter(({ level }) => level === "error").map((line) => line["rid"]),
      [rid],
    );
  });

  it("whose answer was lost with its process is one line all the same", async () => {
    const rid = await ended(partOf);
    const replica = startReplica();
    await replica.pass();
    await ledger.consume(connection);
    await passOver(replica);
    await makeDue();
    // Asks and dies before it writes that down.
    const [event] = await claimMoneyEvents(database.pool, { limit: 10, leaseMs: 50 });
    assert.equal(event?.kind, 2);
    const { accountId, amountNanos, reason } = event;
    await ledger.client.refund({ rid, accountId, amountNanos, reason, refundId: `video:${rid}` });
    await replica.pass();
    await until("another has asked after the lease", async () => {
      await replica.pass();
      return isAllBooked(rid);
    });
    assert.deepEqual([linesOf(rid), ledger.asked.length], [[-800_000_000n, 200_000_000n], 2]);
  });
});

describe("two replicas", () => {
  it("book hundreds of charges and refunds once each, without asking twice", async () => {
    const rids = await Promise.all(Array.from({ length: 60 }, () => insertTask(database.pool)));
    const dues = await claimDue(database.pool, [{ upstream: undefined, slots: 100 }], 60_000);
    for (const due of dues) await applyPoll(database.pool, due, allOf);
    const replicas = [startReplica({ confirmMs: 3_600_000 }), startReplica({ confirmMs: 3_600_000 })];
    const together = async (): Promise<void> => {
      await makeDue();
      await Promise.all(replicas.map(({ pass }) => pass()));
    };
    await together();
    assert.deepEqual(
      (await readStream(connection)).map(({ id }) => String(id)).toSorted(),
      rids.map((rid) => `video:${rid}:1`).toSorted(),
    );
    await ledger.consume(connection);
    await together();
    await together();
    for (const rid of rids) assert.deepEqual(linesOf(rid), [-800_000_000n, 800_000_000n]);
    assert.deepEqual(ledger.asked.toSorted(), rids.toSorted());
    const counts = await Promise.all(replicas.map(({ metrics }) => valueOf(metrics.refunds)));
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      60,
    );
    assert.ok((await Promise.all(rids.map(isAllBooked))).every(Boolean));
  });
});
