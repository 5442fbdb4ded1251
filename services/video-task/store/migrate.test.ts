import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import type { TaskState } from "../task.ts";
import { putTask } from "../testing/states.ts";
import { startTasksDatabase } from "../testing/tasks-database.ts";
import { migrate } from "./migrate.ts";

let database: Awaited<ReturnType<typeof startTasksDatabase>>;
before(async () => {
  database = await startTasksDatabase();
});
after(() => database[Symbol.asyncDispose]());

const forward: Record<TaskState, TaskState[]> = {
  submitting: ["refused", "unknown", "queued", "failed"],
  refused: ["failed"],
  unknown: ["failed"],
  queued: ["in_progress", "completed", "failed"],
  in_progress: ["completed", "failed"],
  completed: [],
  failed: [],
};

// All that the columns of the new state ask for, so that nothing but the order of states can refuse the change.
const change = (state: TaskState): string => `UPDATE video_task.task SET state = '${state}',
  lease_until = ${state === "submitting" ? "now()" : "NULL"},
  ended_at = ${["completed", "failed"].includes(state) ? "now()" : "NULL"},
  error_code = ${state === "failed" ? "'some_code'" : "NULL"},
  upstream = 'first', dialect = 'openai-videos', upstream_id = gen_random_uuid(), cost_nanos = 1, accepted_at = now()`;

test("states only go forward, whoever says otherwise", async () => {
  const states = Object.keys(forward) as TaskState[];
  for (const from of states) {
    for (const to of states.filter((state) => state !== from)) {
      const rid = await putTask(database.ownerUrl, from);
      const changed = query(database.ownerUrl, `${change(to)} WHERE rid = '${rid}'`);
      if (forward[from].includes(to)) await changed;
      else await assert.rejects(changed, { message: `a task that is ${from} cannot become ${to}` });
    }
  }
});

test("migrations that run at the same time, in one database and in another of the cluster, all succeed", async () => {
  const first = await database.postgres.createDatabase();
  const second = await database.postgres.createDatabase();
  const log = createLog("test", "silent");
  await Promise.all([first, first, second, second].map((url) => migrate(url, log)));
  await migrate(first, log);
  const done = await query(first, "SELECT name FROM video_task.migration ORDER BY name");
  assert.deepEqual(
    done.rows.map(({ name }) => name),
    ["0001_tasks", "0002_kept-catalog", "0003_lost-tasks", "0004_forget-tasks"],
  );
});

test("the role of the service has no more rights than its work needs", async () => {
  const refused = [
    "DELETE FROM video_task.task",
    "TRUNCATE video_task.task CASCADE",
    "DELETE FROM video_task.money_event",
    "DELETE FROM video_task.kept_catalog",
    "DELETE FROM video_task.charges_checked",
    "DELETE FROM video_task.migration",
    "ALTER TABLE video_task.task DISABLE TRIGGER ALL",
    "CREATE TABLE video_task.mine (id int)",
  ];
  for (const statement of refused) {
    await assert.rejects(query(database.url, statement), /permission denied|must be owner/, statement);
  }
});

test("a task has at most one charge and one refund, and a provider's task is one of ours at most once", async () => {
  const rid = await putTask(database.ownerUrl, "queued");
  const event = (kind: number) =>
    query(
      database.url,
      `INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, next_try_at)
       VALUES ('${rid}', ${kind}, 'acct_test', 1, 'test', now())`,
    );
  await event(1);
  await event(2);
  await assert.rejects(event(1), { code: "23505" });
  await assert.rejects(event(2), { code: "23505" });
  const other = await putTask(database.ownerUrl, "queued");
  const same = `UPDATE video_task.task SET upstream_id = 'at_provider_${rid}' WHERE rid = '${other}'`;
  await assert.rejects(query(database.url, same), { code: "23505" });
});
