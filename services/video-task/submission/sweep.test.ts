import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Registry } from "prom-client";
import { createLog } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { query } from "#shared/testing/postgres.ts";
import { createMetrics } from "../metrics.ts";
import { holdLease } from "./lease.ts";
import { createSweepPass } from "./sweep.ts";
import { putTask } from "../testing/states.ts";
import { createTasksDatabase, startTasksDatabase } from "../testing/tasks-database.ts";

let server: Awaited<ReturnType<typeof startTasksDatabase>>;
before(async () => {
  server = await startTasksDatabase();
});
after(() => server[Symbol.asyncDispose]());

const log = createLog("test", "silent");
const sweepOn = (pool: Pool, leaseMs: number, elapsedMs = () => 0) => {
  const metrics = createMetrics(new Registry());
  return { metrics, sweep: createSweepPass({ pool, metrics, log, leaseMs, elapsedMs }) };
};
const statesOf = async (ownerUrl: string) =>
  (await query(ownerUrl, "SELECT state FROM video_task.task ORDER BY rid")).rows.map(({ state }) => state);
const endLeases = (ownerUrl: string) =>
  query(ownerUrl, "UPDATE video_task.task SET lease_until = now() - interval '1 ms' WHERE lease_until IS NOT NULL");

test("only submissions whose lease has ended become unknown, keep their key and are counted once", async () => {
  await using database = await createTasksDatabase(server.postgres);
  await putTask(database.ownerUrl, "submitting", { key: "order-1" });
  await endLeases(database.ownerUrl);
  await putTask(database.ownerUrl, "submitting");
  await putTask(database.ownerUrl, "queued");
  const processes = [1, 2, 3].map(() => sweepOn(database.pool, 0));
  await Promise.all(processes.map(({ sweep }) => sweep()));
  assert.deepEqual(await statesOf(database.ownerUrl), ["unknown", "submitting", "queued"]);
  const { rows } = await query(
    database.ownerUrl,
    "SELECT idempotency_key FROM video_task.task WHERE state = 'unknown'",
  );
  assert.deepEqual(rows, [{ idempotency_key: "order-1" }]);
  const counts = await Promise.all(processes.map(async ({ metrics }) => (await metrics.submissions.get()).values));
  assert.equal(
    counts.flat().reduce((sum, { value }) => sum + value, 0),
    1,
  );
});

test("after its start, and after PostgreSQL was away, a pass leaves time to renew leases", async () => {
  await using database = await createTasksDatabase(server.postgres);
  await putTask(database.ownerUrl, "submitting");
  await endLeases(database.ownerUrl);
  let isAway = false;
  const flaky = new Proxy(database.pool, {
    get: (pool, name: keyof Pool) => {
      if (name !== "query") return pool[name];
      return (text: string, values: unknown[]) =>
        isAway ? Promise.reject(new Error("lost connection to PostgreSQL")) : pool.query(text, values);
    },
  });
  let nowMs = 0;
  const { sweep } = sweepOn(flaky, 20_000, () => nowMs);
  await sweep();
  assert.deepEqual(await statesOf(database.ownerUrl), ["submitting"], "just started");
  nowMs = 20_000;
  isAway = true;
  await assert.rejects(sweep());
  isAway = false;
  nowMs = 39_999;
  await sweep();
  assert.deepEqual(await statesOf(database.ownerUrl), ["submitting"], "PostgreSQL is just back");
  nowMs = 40_000;
  await sweep();
  assert.deepEqual(await statesOf(database.ownerUrl), ["unknown"]);
});

test("a lease is fresh for half of its time since before it was written, and longer when it is renewed", async () => {
  await using database = await createTasksDatabase(server.postgres);
  const rid = await putTask(database.ownerUrl, "submitting");
  const leaseOf = (ageMs: number) => {
    const given = { pool: database.pool, log, rid, upstream: "first", leaseMs: 20_000 };
    return holdLease(given, performance.now() - ageMs);
  };
  await using young = leaseOf(5_000);
  await using old = leaseOf(10_000);
  assert.deepEqual([young.isFresh(), old.isFresh()], [true, false]);
  assert.equal(await old.moveTo("second"), true);
  assert.equal(old.isFresh(), true);
  const { rows } = await query(database.ownerUrl, "SELECT upstream FROM video_task.task");
  assert.deepEqual(rows, [{ upstream: "second" }]);
  await endLeases(database.ownerUrl);
  await sweepOn(database.pool, 0).sweep();
  assert.equal(await young.moveTo("second"), false);
});
