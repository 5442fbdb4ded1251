import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RefusalReason, TaskState } from "#proto/video/v1/video_pb.ts";
import { startFakeVideos } from "#fake-provider/videos.ts";
import { videoPrompt, type VideoBehaviour } from "#fake-provider/videos-behaviour.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { serveVideoTask } from "./testing/app.ts";
import { makeSubmission, type SubmissionFields } from "./testing/submissions.ts";
import { startTasksDatabaseAlone } from "./testing/tasks-database.ts";

let database: Awaited<ReturnType<typeof startTasksDatabaseAlone>>;
let provider: Awaited<ReturnType<typeof startFakeVideos>>;
before(async () => {
  database = await startTasksDatabaseAlone();
  provider = await startFakeVideos();
});
after(async () => {
  await provider[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const serve = (variables: Record<string, string> = {}, catalog?: (good: string) => string) =>
  serveVideoTask({ databaseUrl: database.url, upstreamUrl: provider.url, variables, ...(catalog && { catalog }) });
const submissionOf = (behaviour: VideoBehaviour, given: SubmissionFields = {}) =>
  makeSubmission({ ...given, prompt: videoPrompt(behaviour) });
const jobsOf = ({ charge }: ReturnType<typeof makeSubmission>) =>
  provider.jobs.filter(({ rid }) => rid === charge?.rid);
const accountId = "acct_test";

for (const [upstream, name] of [
  ["first", "OpenAI's"],
  ["second", "Gemini's"],
] as const) {
  test(`a task at ${name} API goes from its submission to its file, while NATS and billing are away`, async () => {
    await using app = await serve();
    const request = submissionOf({ polls: 2 }, { upstreams: [upstream] });
    const { outcome } = await app.tasks.submit(request);
    assert.ok(outcome.case === "accepted" && outcome.value.task);
    const { taskId } = outcome.value.task;
    const done = await until("the task is completed", async () => {
      const { task } = await app.tasks.getTask({ accountId, taskId });
      return task?.state === TaskState.COMPLETED ? task : undefined;
    });
    assert.equal(done?.progress, 100);
    const { url, upstream: opener } = await app.tasks.locateContent({ accountId, taskId, variant: "video" });
    assert.deepEqual([opener, new URL(url).origin], [upstream, provider.url]);
    assert.deepEqual(
      jobsOf(request).map(({ seconds, size, attempt }) => [seconds, size, attempt]),
      [[8, "1280x720", 1]],
    );
    assert.equal((await fetch(`${app.opsUrl}/readyz`)).status, 200);
    const { tasks } = await app.tasks.listTasks({ accountId, limit: 1 });
    assert.equal(tasks[0]?.taskId, taskId);
  });
}

test("a failure at the provider is told, and refunded in the same breath", async () => {
  await using app = await serve();
  const request = submissionOf({ end: "failed", polls: 0 });
  const { outcome } = await app.tasks.submit(request);
  assert.ok(outcome.case === "accepted" && outcome.value.task);
  const { taskId } = outcome.value.task;
  const failed = async () => (await app.tasks.getTask({ accountId, taskId })).task?.state === TaskState.FAILED;
  await until("the task has failed", failed);
  const { rows } = await query(
    database.ownerUrl,
    `SELECT kind FROM video_task.money_event WHERE rid = '${request.charge?.rid}' ORDER BY kind`,
  );
  assert.deepEqual(rows, [{ kind: 1 }, { kind: 2 }]);
});

const faults: [NonNullable<VideoBehaviour["submit"]>, RefusalReason, number][] = [
  ["accept-then-cut", RefusalReason.UNKNOWN, 1],
  ["garbage", RefusalReason.UNKNOWN, 1],
  ["cut", RefusalReason.UNKNOWN, 0],
  ["error", RefusalReason.UNKNOWN, 0],
  ["reject", RefusalReason.REJECTED, 0],
  ["rate", RefusalReason.RATE, 0],
  ["account", RefusalReason.ACCOUNT, 0],
  ["unavailable", RefusalReason.UNAVAILABLE, 0],
];

for (const [submit, reason, taken] of faults) {
  test(`a provider that answers a submission with "${submit}" has it at most once, however often it is asked`, async () => {
    await using app = await serve();
    const request = submissionOf({ submit });
    for (let again = 0; again < 3; again += 1) {
      const { outcome } = await app.tasks.submit(request);
      assert.ok(outcome.case === "refused");
      assert.equal(outcome.value.reason, reason);
      assert.deepEqual((await app.tasks.conclude({ rid: request.charge?.rid ?? "", accountId })).charge, undefined);
    }
    assert.equal(jobsOf(request).length, taken);
    const sent = provider.received.filter(({ headers }) => headers["x-request-id"] === request.charge?.rid);
    assert.equal(sent.length, 1);
  });
}

test("two replicas with the same rids at once submit each once, and answer alike", async () => {
  await using first = await serve();
  await using second = await serve();
  const requests = Array.from({ length: 20 }, () => submissionOf({ submit: "slow", submitMs: 20 }));
  const both = requests.flatMap((request) => [first.tasks.submit(request), second.tasks.submit(request)]);
  const answers = await Promise.all(both);
  assert.deepEqual(new Set(answers.map(({ outcome }) => outcome.case)), new Set(["accepted"]));
  for (const request of requests) assert.equal(jobsOf(request).length, 1);
});

test("a process that stops lets the submission under way end, and answers it", async () => {
  const app = await serve();
  const request = submissionOf({ submit: "slow", submitMs: 300 });
  const submitted = app.tasks.submit(request);
  await until("the provider has it", () => jobsOf(request).length === 1);
  await app[Symbol.asyncDispose]();
  assert.equal((await submitted).outcome.case, "accepted");
});

test("a submission whose caller has gone is still written down before the process ends", async () => {
  const app = await serve();
  const request = submissionOf({ submit: "slow", submitMs: 500 });
  const lost = assert.rejects(app.hasty.submit(request));
  await until("the provider has it", () => jobsOf(request).length === 1);
  await lost;
  await app[Symbol.asyncDispose]();
  const { rows } = await query(
    database.ownerUrl,
    `SELECT state FROM video_task.task WHERE rid = '${request.charge?.rid}'`,
  );
  assert.equal(rows.length, 1);
  // A first poll may have come before the end.
  assert.match(String(rows[0]?.["state"]), /^(?:queued|in_progress)$/);
});

test("an acceptance that comes while PostgreSQL is away is written down when it is back", async () => {
  await using app = await serve();
  const request = submissionOf({ submit: "slow", submitMs: 200 });
  const submitted = app.tasks.submit(request);
  await until("the provider has it", () => jobsOf(request).length === 1);
  await database.postgres.kill();
  await assert.rejects(app.tasks.getTask({ accountId, taskId: `video_${"0".repeat(32)}` }), { code: "unavailable" });
  await database.postgres.restart();
  const { outcome } = await submitted;
  assert.equal(outcome.case, "accepted");
  const charged = `SELECT FROM video_task.money_event WHERE rid = '${request.charge?.rid}'`;
  assert.equal((await query(database.ownerUrl, charged)).rowCount, 1);
});

test("a process that dies while it submits leaves an unknown submission, which its next life sends to nobody", async () => {
  const request = submissionOf({ submit: "slow", submitMs: 60_000 });
  const dying = await serve({ SUBMIT_LEASE_MS: "1000", DRAIN_MS: "0" });
  const lost = assert.rejects(dying.tasks.submit(request));
  await until("the provider has it", () => jobsOf(request).length === 1);
  await dying[Symbol.asyncDispose]();
  await lost;
  await using app = await serve({ SUBMIT_LEASE_MS: "1000" });
  const { outcome } = await app.tasks.submit(request);
  assert.ok(outcome.case === "refused" && outcome.value.reason === RefusalReason.UNKNOWN);
  assert.equal(jobsOf(request).length, 1);
});

test("a process whose catalog has a typo begins with the one that was taken last, if it comes from one of its kind", async () => {
  const withTypo = (good: string): string => good.replaceAll("base_url", "baes_url");
  const kept = async (columns: string): Promise<Record<string, unknown>[]> =>
    (await query(database.ownerUrl, `SELECT ${columns} FROM video_task.kept_catalog`)).rows;
  await query(database.ownerUrl, "DELETE FROM video_task.kept_catalog");
  await assert.rejects(serve({}, withTypo), /baes_url is not a known field/);
  {
    await using _good = await serve();
    await until("the catalog is kept", async () => (await kept("version")).length === 1);
  }
  {
    await using app = await serve({}, withTypo);
    const { outcome } = await app.tasks.submit(submissionOf({ polls: 0 }));
    assert.equal(outcome.case, "accepted");
    const readyz = await (await fetch(`${app.opsUrl}/readyz`)).text();
    assert.match(readyz, /^ok\nthe catalog file is refused; catalog [0-9a-f]{12} is in use\n$/);
    assert.match(await (await fetch(`${app.opsUrl}/metrics`)).text(), /video_task_catalog_refused\S* 1\n/);
  }
  // Whoever has stolen the database's login does not know what the provider's key is.
  await query(database.ownerUrl, "UPDATE video_task.kept_catalog SET proof = decode(repeat('00', 32), 'hex')");
  await assert.rejects(serve({}, withTypo), /not used: it is not proven by the credentials here/);
});
