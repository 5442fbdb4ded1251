import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { TaskState } from "#proto/video/v1/video_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { deleteTask, getTask, listTasksOf } from "./account-tasks.ts";
import { locateContent } from "./locate-content.ts";
import { taskIdOf } from "../task.ts";
import { createPromptPass } from "../store/prompts.ts";
import { putTask } from "../testing/states.ts";
import { upstreams } from "../testing/submissions.ts";
import { createTasksDatabase, startTasksDatabase } from "../testing/tasks-database.ts";

let database: Awaited<ReturnType<typeof startTasksDatabase>>;
before(async () => {
  database = await startTasksDatabase();
});
after(() => database[Symbol.asyncDispose]());

const asked = (rid: string, accountId = "acct_test") => ({ accountId, taskId: taskIdOf(rid) });
const get = (rid: string, accountId?: string) =>
  getTask(database.pool, { $typeName: "video.v1.GetTaskRequest", ...asked(rid, accountId) });
const remove = (rid: string, accountId?: string) =>
  deleteTask(database.pool, { $typeName: "video.v1.DeleteTaskRequest", ...asked(rid, accountId) });
const locate = (rid: string, variant = "video", accountId?: string) =>
  locateContent(
    { pool: database.pool, upstreams },
    { $typeName: "video.v1.LocateContentRequest", ...asked(rid, accountId), variant },
  );

test("a task is told with its state, its times and its error", async () => {
  const told = await Promise.all(
    (["queued", "in_progress", "completed", "failed"] as const).map(async (state) => {
      const { task } = await get(await putTask(database.ownerUrl, state));
      return [task?.state, task?.progress, !!task?.completedAt, !!task?.expiresAt, task?.error?.code];
    }),
  );
  assert.deepEqual(told, [
    [TaskState.QUEUED, 0, false, false, undefined],
    [TaskState.IN_PROGRESS, 40, false, false, undefined],
    [TaskState.COMPLETED, 100, true, true, undefined],
    [TaskState.FAILED, 0, false, false, "some_code"],
  ]);
});

test("another account's task, a submission that nobody took, and what is no id are not found", async () => {
  const rid = await putTask(database.ownerUrl, "completed");
  const notFound = { code: "not_found" };
  await assert.rejects(get(rid, "acct_other"), notFound);
  await assert.rejects(remove(rid, "acct_other"), notFound);
  await assert.rejects(locate(rid, "video", "acct_other"), notFound);
  await assert.rejects(get(createRid()), notFound);
  for (const state of ["submitting", "refused", "unknown"] as const) {
    await assert.rejects(get(await putTask(database.ownerUrl, state)), notFound);
  }
  const badId = { $typeName: "video.v1.GetTaskRequest" as const, accountId: "acct_test", taskId: "video_1'; --" };
  await assert.rejects(getTask(database.pool, badId), notFound);
});

test("a deleted task is not found any more, by nothing; one that runs cannot be deleted", async () => {
  for (const state of ["completed", "failed"] as const) {
    const rid = await putTask(database.ownerUrl, state);
    assert.equal((await remove(rid)).task?.taskId, taskIdOf(rid));
    for (const again of [get, remove, locate]) await assert.rejects(again(rid), { code: "not_found" });
  }
  for (const state of ["queued", "in_progress"] as const) {
    const rid = await putTask(database.ownerUrl, state);
    await assert.rejects(remove(rid), { code: "failed_precondition" });
    await get(rid);
  }
});

test("a list is paged in both directions, from any task on, without gaps, doubles or others' tasks", async () => {
  await using own = await createTasksDatabase(database.postgres);
  const rids: string[] = [];
  for (let index = 0; index < 7; index += 1) rids.push(await putTask(own.ownerUrl, "completed"));
  await putTask(own.ownerUrl, "completed", { account: "acct_other" });
  await putTask(own.ownerUrl, "refused");
  const page = (afterTaskId: string, isAscending: boolean, limit = 3) =>
    listTasksOf(own.pool, {
      $typeName: "video.v1.ListTasksRequest",
      accountId: "acct_test",
      afterTaskId,
      isAscending,
      limit,
    });
  const all = async (isAscending: boolean) => {
    const ids: string[] = [];
    for (let hasMore = true; hasMore;) {
      const told = await page(ids.at(-1) ?? "", isAscending);
      ids.push(...(told.tasks ?? []).map(({ taskId = "" }) => taskId));
      hasMore = told.hasMore ?? false;
    }
    return ids;
  };
  const ids = rids.map(taskIdOf);
  assert.deepEqual(await all(true), ids);
  assert.deepEqual(await all(false), ids.toReversed());
  const second = rids[1] ?? "";
  await deleteTask(own.pool, { $typeName: "video.v1.DeleteTaskRequest", ...asked(second) });
  const after = await page(taskIdOf(second), true, 0);
  assert.deepEqual([after.tasks?.map(({ taskId }) => taskId), after.hasMore], [ids.slice(2), false]);
  for (const limit of [-1, 101]) await assert.rejects(page("", true, limit), { code: "invalid_argument" });
});

test("a file is located at its provider, once its task is completed", async () => {
  const rid = await putTask(database.ownerUrl, "completed");
  const { upstream, url } = await locate(rid);
  assert.equal(upstream, "first");
  assert.equal(new URL(url ?? "").origin, "https://first.example");
  assert.match(url ?? "", new RegExp(`at_provider_${rid}`));
  await assert.rejects(locate(rid, "subtitles"), { code: "invalid_argument" });
  for (const state of ["queued", "in_progress", "failed"] as const) {
    const other = await putTask(database.ownerUrl, state);
    await assert.rejects(locate(other), { code: "failed_precondition" });
  }
});

test("a file that the provider does not make, and one whose upstream left the catalog, are told apart", async () => {
  const contentUrl = "https://files.example/v1beta/files/1:download";
  const rid = await putTask(database.ownerUrl, "completed", { dialect: "gemini-videos", contentUrl });
  assert.equal((await locate(rid)).url, contentUrl);
  await assert.rejects(locate(rid, "thumbnail"), { code: "invalid_argument" });
  await query(database.ownerUrl, `UPDATE video_task.task SET upstream = 'third' WHERE rid = '${rid}'`);
  await assert.rejects(locate(rid), { code: "unavailable" });
});

test("the prompt of a deleted task is forgotten at once, that of an old one after the retention", async () => {
  const promptOf = async (rid: string): Promise<string | undefined> => {
    const { rows } = await database.pool.query<{ prompt: string }>(
      "SELECT prompt FROM video_task.task WHERE rid = $1",
      [rid],
    );
    return rows[0]?.prompt;
  };
  const deleted = await putTask(database.ownerUrl, "completed");
  assert.notEqual(await promptOf(deleted), "");
  await remove(deleted);
  assert.equal(await promptOf(deleted), "");

  const day = 86_400_000;
  let nowMs = Date.now();
  const old = await putTask(database.ownerUrl, "failed");
  const pass = createPromptPass(database.pool, { days: 30, nowMs: () => nowMs });
  await pass();
  assert.notEqual(await promptOf(old), "");
  nowMs += 29 * day;
  await pass();
  assert.notEqual(await promptOf(old), "");
  nowMs += 2 * day;
  await pass();
  assert.equal(await promptOf(old), "");
  assert.equal((await get(old)).task?.prompt, "");
});

test("all old prompts are forgotten, however many there are", async () => {
  await database.pool.query(
    `INSERT INTO video_task.task (rid, account_id, state, request_hash, model, prompt, seconds, size, deadline_seconds,
       charge, refusal, retry_after_seconds)
     SELECT ('0000' || lpad(to_hex(number), 4, '0') || '-0000-7000-8000-000000000000')::uuid, 'acct_old', 'refused',
       decode(repeat('00', 32), 'hex'), 'm', 'p', 1, '1x1', 1, '', 1, 0 FROM generate_series(1, 2500) AS number`,
  );
  await createPromptPass(database.pool, { days: 30, nowMs: Date.now })();
  const { rows } = await database.pool.query(
    "SELECT FROM video_task.task WHERE account_id = 'acct_old' AND prompt <> ''",
  );
  assert.equal(rows.length, 0);
});
