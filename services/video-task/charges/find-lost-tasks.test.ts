import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { toBinary } from "@bufbuild/protobuf";
import { Registry } from "prom-client";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { sharePostgres, type Databases } from "#shared/testing/share.ts";
import { getTask } from "../handlers/account-tasks.ts";
import { createMetrics } from "../metrics.ts";
import { taskIdOf } from "../task.ts";
import { startLedgerDouble, type LedgerDouble } from "../testing/ledger-double.ts";
import { putTask } from "../testing/states.ts";
import { makeCharge } from "../testing/submissions.ts";
import { createTasksDatabase, type TasksDatabase } from "../testing/tasks-database.ts";
import { createChargePass } from "./charge-outbox.ts";
import { createLostTaskPass } from "./find-lost-tasks.ts";

let postgres: Awaited<ReturnType<typeof sharePostgres>> & Databases;
let database: TasksDatabase;
let ledger: LedgerDouble;
before(async () => {
  postgres = await sharePostgres();
});
after(() => postgres[Symbol.asyncDispose]());
beforeEach(async () => {
  database = await createTasksDatabase(postgres);
  ledger = await startLedgerDouble();
});
afterEach(async () => {
  await ledger[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const log = createLog("test", "silent");

function startReplica() {
  const metrics = createMetrics(new Registry());
  const deps = { pool: database.pool, billing: ledger.client, metrics, log };
  const refundPass = createChargePass({ ...deps, jetStream: () => undefined, confirmMs: 10 });
  const counted = async () => (await metrics.lostTasks.get()).values[0]?.value;
  return { pass: createLostTaskPass(deps), refundPass, counted };
}

/** A charge of 0.80 USD in the ledger. */
function charged(given: Partial<UsageRecorded> = {}, refundedNanos = 0n): string {
  const charge = makeCharge(given);
  const { rid, accountId, costNanos } = charge;
  ledger.videoCharges.push({ record: toBinary(UsageRecordedSchema, charge), refundedNanos });
  const line = { accountId, rid, reference: "" };
  ledger.lines.push({ ...line, kind: LineKind.CHARGE, amountNanos: -costNanos });
  if (refundedNanos > 0n) ledger.lines.push({ ...line, kind: LineKind.REFUND, amountNanos: refundedNanos });
  return rid;
}

const taskOf = async (rid: string, accountId = "acct_test") =>
  (await getTask(database.pool, { $typeName: "video.v1.GetTaskRequest", accountId, taskId: taskIdOf(rid) })).task;

const refundsOf = (rid: string) =>
  ledger.lines.filter((line) => line.rid === rid && line.kind === LineKind.REFUND).map((line) => line.amountNanos);

test("a charge whose task is lost becomes a failed task and is refunded, once, whichever replicas look", async () => {
  const replica = startReplica();
  await replica.pass();
  const [lost, known] = [charged({ upstream: "first" }), await putTask(database.ownerUrl, "queued")];
  charged({ rid: known });
  ledger.isAway = true;
  await assert.rejects(replica.pass());
  ledger.isAway = false;
  const other = startReplica();
  await Promise.all([replica.pass(), other.pass()]);
  await Promise.all([replica.pass(), other.pass()]);
  const task = await taskOf(lost);
  assert.deepEqual([task?.state, task?.error?.code, task?.seconds], [TaskState.FAILED, "lost", 8]);
  assert.equal((await taskOf(known))?.state, TaskState.QUEUED);
  await Promise.all([replica.refundPass(), other.refundPass()]);
  await replica.refundPass();
  assert.deepEqual([refundsOf(lost), refundsOf(known)], [[800_000_000n], []]);
  assert.equal(((await replica.counted()) ?? 0) + ((await other.counted()) ?? 0), 1);
});

test("tasks that go back to a backup are looked for from where they were checked then", async () => {
  const replica = startReplica();
  await replica.pass();
  const rid = charged();
  await replica.pass();
  const checked = async () => (await database.pool.query("SELECT until_line_id FROM video_task.charges_checked")).rows;
  assert.deepEqual(await checked(), [{ until_line_id: "1" }]);
  await query(
    database.ownerUrl,
    `DELETE FROM video_task.money_event; DELETE FROM video_task.task;
     UPDATE video_task.charges_checked SET until_line_id = '0'`,
  );
  await startReplica().pass();
  assert.equal((await taskOf(rid))?.state, TaskState.FAILED);
  await startReplica().refundPass();
  assert.deepEqual(refundsOf(rid), [800_000_000n]);
});

test("a submission that an older copy knows as not accepted has failed, too; of another account nothing is changed", async () => {
  const replica = startReplica();
  await replica.pass();
  const states = ["submitting", "unknown", "refused"] as const;
  const rids = await Promise.all(states.map((state) => putTask(database.ownerUrl, state)));
  for (const rid of rids) charged({ rid });
  const foreign = await putTask(database.ownerUrl, "unknown");
  charged({ rid: foreign, accountId: "acct_other" });
  await replica.pass();
  await replica.refundPass();
  for (const rid of rids)
    assert.deepEqual([(await taskOf(rid))?.error?.code, refundsOf(rid)], ["lost", [800_000_000n]]);
  for (const account of ["acct_test", "acct_other"])
    await assert.rejects(taskOf(foreign, account), { code: "not_found" });
});

test("what was refunded before is not refunded again: all of it, or a part", async () => {
  const replica = startReplica();
  await replica.pass();
  const [all, part, free] = [charged({}, 800_000_000n), charged({}, 300_000_000n), charged({ costNanos: 0n })];
  await replica.pass();
  await replica.refundPass();
  assert.deepEqual([refundsOf(all), refundsOf(part)], [[800_000_000n], [300_000_000n, 500_000_000n]]);
  assert.deepEqual(ledger.asked, [part]);
  for (const rid of [all, part, free]) assert.equal((await taskOf(rid))?.state, TaskState.FAILED);
});

test("with new tables nothing is looked at that was charged before them; more than one page is", async () => {
  const before = charged();
  const replica = startReplica();
  await replica.pass();
  const rids = Array.from({ length: 1_001 }, () => charged({ rid: createRid() }));
  await replica.pass();
  await assert.rejects(taskOf(before), { code: "not_found" });
  const { rows } = await database.pool.query("SELECT count(*)::int AS lost FROM video_task.task");
  assert.deepEqual(rows, [{ lost: rids.length }]);
});
