import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { conclude } from "./conclude.ts";
import { createSubmit } from "./submit.ts";
import { putTask } from "../testing/states.ts";
import { makeSubmission, scriptProviders, submittingOn, yes } from "../testing/submissions.ts";
import { startTasksDatabase } from "../testing/tasks-database.ts";

let database: Awaited<ReturnType<typeof startTasksDatabase>>;
before(async () => {
  database = await startTasksDatabase();
});
after(() => database[Symbol.asyncDispose]());

const concludeOf = (rid: string, accountId = "acct_test") =>
  conclude(database.pool, { $typeName: "video.v1.ConcludeRequest", rid, accountId });

for (const state of ["queued", "in_progress", "completed", "failed"] as const) {
  test(`a submission that is ${state} is concluded with its charge: it was booked and the relay settles with it`, async () => {
    const rid = await putTask(database.ownerUrl, state);
    assert.deepEqual(await concludeOf(rid), { charge: Buffer.from("1234", "hex") });
  });
}

for (const state of ["refused", "unknown"] as const) {
  test(`a submission that is ${state} is concluded without a charge: the relay releases its hold`, async () => {
    const isUnknown = state === "unknown";
    assert.deepEqual(await concludeOf(await putTask(database.ownerUrl, state)), { isUnknown });
  });
}

test("while a submission is submitting nobody can conclude it", async () => {
  const rid = await putTask(database.ownerUrl, "submitting");
  await assert.rejects(concludeOf(rid), { code: "unavailable" });
});

test("a submission that comes after its conclusion sends nothing", async () => {
  const request = makeSubmission({ key: "order-1" });
  const rid = request.charge?.rid ?? "";
  assert.deepEqual(await concludeOf(rid), { isUnknown: false });
  assert.deepEqual(await concludeOf(rid), { isUnknown: false });
  const requestProvider = scriptProviders(() => yes());
  const { outcome } = await createSubmit(submittingOn(database.pool, requestProvider))(request);
  assert.ok(outcome?.case === "refused" && outcome.value.reason === RefusalReason.STOPPING);
  assert.equal(requestProvider.questions.length, 0);
  const { rows } = await query(database.ownerUrl, "SELECT FROM video_task.task WHERE idempotency_key = 'order-1'");
  assert.deepEqual(rows, [], "its idempotency key is free");
});

test("a submission and its conclusion at once agree: sent and charged, or neither", async () => {
  for (let round = 0; round < 20; round += 1) {
    const request = makeSubmission();
    const rid = request.charge?.rid ?? "";
    const requestProvider = scriptProviders(() => yes());
    const submitted = createSubmit(submittingOn(database.pool, requestProvider))(request);
    const [concluded] = await Promise.allSettled([concludeOf(rid)]);
    const { outcome } = await submitted;
    // What was under way is concluded by asking again.
    const last = concluded.status === "fulfilled" ? concluded.value : await concludeOf(rid);
    const isCharged = outcome?.case === "accepted";
    assert.deepEqual([requestProvider.questions.length, last.charge !== undefined], isCharged ? [1, true] : [0, false]);
  }
});

test("another account's rid is not concluded, and what is no rid is refused", async () => {
  const rid = await putTask(database.ownerUrl, "queued");
  await assert.rejects(concludeOf(rid, "acct_other"), { code: "invalid_argument" });
  await assert.rejects(concludeOf("video_1"), { code: "invalid_argument" });
  await assert.rejects(concludeOf(createRid(), "not an id"), { code: "invalid_argument" });
});
