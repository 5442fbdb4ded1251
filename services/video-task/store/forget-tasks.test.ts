import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { v7 } from "uuid";
import { query } from "#shared/testing/postgres.ts";
import type { TaskState } from "../task.ts";
import { putTask } from "../testing/states.ts";
import { startTasksDatabase } from "../testing/tasks-database.ts";
import { createForgetPass } from "./forget-tasks.ts";

let database: Awaited<ReturnType<typeof startTasksDatabase>>;
before(async () => {
  database = await startTasksDatabase();
});
after(() => database[Symbol.asyncDispose]());

const dayMs = 86_400_000;
const ridOf = (days: number): string => v7({ msecs: Date.now() - days * dayMs });
const put = (state: TaskState, days: number) => putTask(database.ownerUrl, state, { rid: ridOf(days) });
const event = (rid: string, kind: number, isBooked: boolean) =>
  query(
    database.ownerUrl,
    `INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, next_try_at, booked_at)
     VALUES ('${rid}', ${kind}, 'acct_test', 1, 'test', ${isBooked ? "NULL, now()" : "now(), NULL"})`,
  );

test("submissions go after 400 days with their money, but for those that run or whose money is not booked", async () => {
  const over = ["refused", "unknown", "completed", "failed"] as const;
  const old = await Promise.all(over.map((state) => put(state, 401)));
  for (const rid of old.slice(2)) for (const kind of [1, 2]) await event(rid, kind, true);
  const kept = await Promise.all([
    ...over.map((state) => put(state, 399)),
    put("queued", 401),
    put("in_progress", 401),
    put("submitting", 401),
  ]);
  const owing = await put("failed", 500);
  await event(owing, 1, true);
  await event(owing, 2, false);
  await createForgetPass(database.pool)();
  const { rows } = await database.pool.query<{ rid: string }>("SELECT rid FROM video_task.task");
  assert.deepEqual(rows.map(({ rid }) => rid).toSorted(), [...kept, owing].toSorted());
  const { rows: events } = await database.pool.query("SELECT DISTINCT rid FROM video_task.money_event");
  assert.deepEqual(events, [{ rid: owing }]);
});

test("more than a thousand go at once", async () => {
  await query(
    database.ownerUrl,
    `INSERT INTO video_task.task (rid, account_id, state, request_hash, model, prompt, seconds, size, deadline_seconds,
       charge, refusal, retry_after_seconds)
     SELECT ('00000000-0001-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'acct_test', 'refused', sha256('asked'), 'm',
       '', 1, '', 1, '', 3, 0 FROM generate_series(1, 2500) AS n`,
  );
  await createForgetPass(database.pool)();
  const { rows } = await database.pool.query(
    "SELECT count(*)::int AS left FROM video_task.task WHERE rid < '00000001-0000-7000-8000-000000000000'",
  );
  assert.deepEqual(rows, [{ left: 0 }]);
});
