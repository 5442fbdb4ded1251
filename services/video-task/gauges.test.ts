import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { v7 } from "uuid";
import { createGaugesPass } from "./gauges.ts";
import { createMetrics } from "./metrics.ts";
import { insertTask } from "./testing/polled-task.ts";
import { startTasksDatabase } from "./testing/tasks-database.ts";

test("tasks by state, the age of the oldest open one, and money that is not booked are told; 0 when there is none", async () => {
  await using database = await startTasksDatabase();
  const { pool } = database;
  const registry = new Registry();
  const pass = createGaugesPass({ pool, metrics: createMetrics(registry) });
  const read = async () => {
    await pass();
    const values: Record<string, number> = {};
    for (const metric of await registry.getMetricsAsJSON()) {
      for (const { labels, value } of metric.values) values[String(labels["state"] ?? metric.name)] = Math.floor(value);
    }
    return values;
  };
  const none = { submitting: 0, refused: 0, unknown: 0, queued: 0, in_progress: 0, completed: 0, failed: 0 };
  const { video_task_oldest_open_seconds: age, video_task_money_events_open: open, ...empty } = await read();
  assert.deepEqual([age, open], [0, 0]);
  for (const [state, count] of Object.entries(none)) assert.equal(empty[state], count);

  const [oldest, completed] = [await insertTask(pool), await insertTask(pool), await insertTask(pool)];
  // Submitted long before, and longer before than an hour.
  const early = ["01900000-0000-7000-8000-000000000001", v7({ msecs: Date.now() - 2 * 3_600_000 })];
  for (const rid of early) await insertTask(pool, { rid });
  await pool.query("UPDATE video_task.task SET created_at = now() - interval '1 hour' WHERE rid = $1", [oldest]);
  const end =
    "UPDATE video_task.task SET state = 'completed', ended_at = now(), next_look_at = NULL WHERE rid = ANY ($1)";
  await pool.query(end, [[completed, ...early]]);
  await pool.query("UPDATE video_task.money_event SET created_at = now() - interval '2 hours' WHERE rid = $1", [
    oldest,
  ]);
  const full = await read();
  assert.deepEqual([full["queued"], full["completed"], full["failed"]], [2, 1, 0]);
  const isAbout = (name: string, seconds: number) => (full[name] ?? 0) >= seconds && (full[name] ?? 0) < seconds + 60;
  assert.ok(isAbout("video_task_oldest_open_seconds", 3_600));
  assert.equal(full["video_task_money_events_open"], 5);
  assert.ok(isAbout("video_task_money_oldest_seconds", 7_200));

  await pool.query(end, [[oldest]]);
  await pool.query("UPDATE video_task.task SET state = 'in_progress' WHERE state = 'queued'");
  await pool.query("UPDATE video_task.money_event SET booked_at = now(), next_try_at = NULL");
  const later = await read();
  assert.deepEqual([later["queued"], later["in_progress"], later["video_task_money_events_open"]], [0, 1, 0]);
  assert.ok((later["video_task_oldest_open_seconds"] ?? 3_600) < 3_600);
});
