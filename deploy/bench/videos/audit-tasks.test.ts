import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { query } from "#shared/testing/postgres.ts";
import { putTask } from "../../../services/video-task/testing/states.ts";
import { startTasksDatabase } from "../../../services/video-task/testing/tasks-database.ts";
import { auditLedger, auditProvider, auditTasks } from "./audit-tasks.ts";

test("a task without its charge, and one that has failed without its refund, are told", async () => {
  await using database = await startTasksDatabase();
  const { ownerUrl } = database;
  const put = async (rid: string, kind: number, booked: string): Promise<unknown> =>
    query(
      ownerUrl,
      `INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, ${booked})
       VALUES ('${rid}', ${kind}, 'acct_test', 1, 'test', now())`,
    );
  const completed = await putTask(ownerUrl, "completed");
  const failed = await putTask(ownerUrl, "failed");
  const expected = { running: 0, completed: 1, failed: 1 };
  await put(completed, 1, "booked_at");
  assert.deepEqual(await auditTasks(ownerUrl, expected), [
    "charges not booked: 1 instead of 0",
    "refunds not as the states are: 1 instead of 0",
  ]);
  await put(failed, 1, "booked_at");
  await put(failed, 2, "next_try_at");
  assert.deepEqual(await auditTasks(ownerUrl, expected), ["refunds not booked: 1 instead of 0"]);
  await query(ownerUrl, "UPDATE video_task.money_event SET booked_at = now(), next_try_at = NULL");
  assert.deepEqual(await auditTasks(ownerUrl, expected), []);
  assert.deepEqual(await auditTasks(ownerUrl, { ...expected, completed: 2 }), ["completed: 1 instead of 2"]);
});

test("a charge that the ledger was not told of, and a refund that nobody was owed, are told", () => {
  const ledgerOf = (charged: string[], refunded: string[]) => ({
    address: "",
    charged: new Map(charged.map((rid) => [rid, 1n])),
    refunded: new Map(refunded.map((rid) => [`video:${rid}`, rid])),
    wrong: [],
    [Symbol.asyncDispose]: () => Promise.resolve(),
  });
  const tasks = { accepted: ["a", "b"], failed: ["b"] };
  assert.deepEqual(auditLedger(ledgerOf(["b", "a"], ["b"]), tasks), []);
  assert.deepEqual(auditLedger(ledgerOf(["a"], ["b"]), tasks), ["1 charges for 2 tasks"]);
  assert.deepEqual(auditLedger(ledgerOf(["a", "c"], ["a"]), tasks), [
    "the ledger has other charges than those of the tasks",
    "the ledger has other refunds than those of the failed tasks",
  ]);
  const twice = { ...ledgerOf(["a", "b"], ["b"]), wrong: ["a was charged twice, differently"] };
  assert.deepEqual(auditLedger(twice, tasks), twice.wrong);
});

test("a task that the provider has taken twice is told", async () => {
  const folder = await mkdtemp(join(tmpdir(), "bench-truth-"));
  try {
    const file = join(folder, "truth.jsonl");
    const lines = [
      { id: "one", attempt: 1 },
      { id: "two", attempt: 2 },
    ];
    await writeFile(file, lines.map((job) => `${JSON.stringify(job)}\n`).join(""));
    assert.deepEqual(auditProvider(file, 1), [
      "1 tasks were submitted twice",
      "the provider took 2 tasks, and 1 were accepted",
    ]);
    assert.deepEqual(auditProvider(file, 2), ["1 tasks were submitted twice"]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
