import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { RefusalReason, TaskState } from "#proto/video/v1/video_pb.ts";
import { createLog } from "#shared/process/log.ts";
import { createPool, type Pool } from "#shared/stores/postgres.ts";
import { withProof } from "#shared/money/hold-proof.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import type { ProviderResult } from "../providers/request.ts";
import { findSubmission as find } from "./find-submission.ts";
import { createSlots, defaultSlotLimits } from "./slots.ts";
import { createSubmit, type SubmitDeps } from "./submit.ts";
import { createSweepPass } from "./sweep.ts";
import { taskIdOf } from "../task.ts";
import { answerOf, makeSubmission, scriptProviders, submittingOn, yes } from "../testing/submissions.ts";
import { createTasksDatabase, startTasksDatabase, type TasksDatabase } from "../testing/tasks-database.ts";

let server: Awaited<ReturnType<typeof startTasksDatabase>>;
let database: TasksDatabase;
before(async () => {
  server = await startTasksDatabase();
  database = server;
});
after(() => server[Symbol.asyncDispose]());

const rowsOf = async (rid: string, ownerUrl = database.ownerUrl) =>
  (await query(ownerUrl, `SELECT * FROM video_task.task WHERE rid = '${rid}'`)).rows;
const rowOf = async (rid: string, ownerUrl?: string) => (await rowsOf(rid, ownerUrl))[0];
const eventsOf = async (rid: string) =>
  (await query(database.ownerUrl, `SELECT kind, amount_nanos FROM video_task.money_event WHERE rid = '${rid}'`)).rows;

const ridOf = ({ charge }: ReturnType<typeof makeSubmission>): string => charge?.rid ?? "";
const submitWith = (requestProvider: ReturnType<typeof scriptProviders>, given: Partial<SubmitDeps> = {}) =>
  createSubmit(submittingOn(database.pool, requestProvider, given));

type Response = Awaited<ReturnType<ReturnType<typeof createSubmit>>>;
const refusalOf = ({ outcome }: Response) => {
  assert.equal(outcome?.case, "refused");
  return outcome.value.reason;
};
const acceptedOf = ({ outcome }: Response) => {
  assert.equal(outcome?.case, "accepted");
  return outcome.value;
};

/** A provider that answers when it is let go. */
function holdAnswers(answer: ProviderResult = yes()) {
  const gate = Promise.withResolvers<void>();
  const requestProvider = scriptProviders(async () => {
    await gate.promise;
    return answer;
  });
  return { requestProvider, release: gate.resolve };
}

test("a task that a provider takes is queued with its final charge and the event that books it, all in one", async () => {
  const requestProvider = scriptProviders(() => yes("video_abc"));
  const request = makeSubmission({ prompt: "a dog" });
  const rid = ridOf(request);
  const { task, charge } = acceptedOf(await submitWith(requestProvider)(request));
  assert.deepEqual(
    [task?.taskId, task?.state, task?.model, task?.prompt, task?.seconds, task?.size, task?.progress],
    [taskIdOf(rid), TaskState.QUEUED, "demo-video", "a dog", 8, "1280x720", 0],
  );
  const row = await rowOf(rid);
  assert.deepEqual(
    [row.state, row.upstream, row.dialect, row.upstream_id, row.cost_nanos, row.lease_until],
    ["queued", "first", "openai-videos", "video_abc", "800000000", null],
  );
  assert.ok(row.next_look_at > row.accepted_at);
  assert.deepEqual(row.charge, Buffer.from(charge ?? []));
  const final = fromBinary(UsageRecordedSchema, row.charge);
  assert.deepEqual(
    [final.rid, final.upstream, final.modelServed, final.upstreamCostNanos, final.costNanos, final.heldNanos],
    [rid, "first", "first-model", 400_000_000n, 800_000_000n, 800_000_000n],
  );
  assert.ok(final.endedAt && final.firstByteAt);
  assert.deepEqual(await eventsOf(rid), [{ kind: 1, amount_nanos: "800000000" }]);
  assert.deepEqual(
    requestProvider.questions.map((question) => [question.upstream, question.rid]),
    [["first", rid]],
  );
});

test("the charge is proven by the secret of its hold, and the secret is written down nowhere", async () => {
  const holdSecret = Buffer.from("0123456789abcdef");
  const request = { ...makeSubmission(), holdSecret };
  const { charge } = acceptedOf(await submitWith(scriptProviders(() => yes("video_proven")))(request));
  const row = await rowOf(ridOf(request));
  assert.deepEqual(row.charge, Buffer.from(charge ?? []));
  const rest = row.charge.subarray(19);
  assert.deepEqual(Buffer.from(withProof(holdSecret, rest)), row.charge);
  assert.ok(!JSON.stringify(row).includes(holdSecret.toString()) && !row.charge.includes(holdSecret));
  const short = { ...makeSubmission(), holdSecret: Buffer.from("short") };
  await assert.rejects(submitWith(scriptProviders(() => yes("video_short")))(short), { code: "invalid_argument" });
});

test("the same rid twice at once, and again later, is submitted once; all get the same outcome and charge", async () => {
  const { requestProvider, release } = holdAnswers();
  const submit = submitWith(requestProvider);
  const request = makeSubmission();
  const both = [submit(request), submit(request)];
  await until("the provider is asked", () => requestProvider.questions.length > 0);
  release();
  const outcomes = [...(await Promise.all(both)), await submit(request)].map(acceptedOf);
  assert.equal(requestProvider.questions.length, 1);
  for (const { task, charge } of outcomes) {
    assert.equal(task?.taskId, taskIdOf(ridOf(request)));
    assert.deepEqual(Buffer.from(charge ?? []), Buffer.from(outcomes[0]?.charge ?? []));
  }
});

test("two processes with the same rid at once submit it once", async () => {
  await using otherPool = createPool(database.url, "other", () => undefined);
  for (let round = 0; round < 10; round += 1) {
    const { requestProvider, release } = holdAnswers();
    const request = makeSubmission();
    const processes = [database.pool, otherPool].map((pool) => createSubmit(submittingOn(pool, requestProvider)));
    const both = processes.map((submit) => submit(request));
    await until("a provider is asked", () => requestProvider.questions.length > 0);
    release();
    for (const response of await Promise.all(both)) acceptedOf(response);
    assert.equal(requestProvider.questions.length, 1);
    assert.equal((await eventsOf(ridOf(request))).length, 1);
  }
});

test("the same idempotency key at once from many rids is submitted once, and all get the same task", async () => {
  await using otherPool = createPool(database.url, "other", () => undefined);
  const { requestProvider, release } = holdAnswers();
  const submits = [database.pool, otherPool].map((pool) => createSubmit(submittingOn(pool, requestProvider)));
  const requests = Array.from({ length: 6 }, () => makeSubmission({ account: "acct_key", key: "order-1" }));
  const all = submits.flatMap((submit, index) => requests.slice(index * 3, index * 3 + 3).map(submit));
  await until("a provider is asked", () => requestProvider.questions.length > 0);
  release();
  const outcomes = (await Promise.all(all)).map(({ outcome }) => outcome);
  assert.equal(requestProvider.questions.length, 1);
  const ids = outcomes.map((outcome) => {
    if (outcome?.case === "accepted") return outcome.value.task?.taskId;
    return outcome?.case === "earlier" ? outcome.value.taskId : outcome?.case;
  });
  assert.deepEqual(new Set(ids), new Set([taskIdOf(requestProvider.questions[0]?.rid ?? "")]));
  assert.equal(outcomes.filter((outcome) => outcome?.case === "accepted").length, 1);
});

test("an idempotency key with another body is told so and sends nothing; another account's key is its own", async () => {
  const requestProvider = scriptProviders(() => yes());
  const deps = submittingOn(database.pool, requestProvider);
  const submit = createSubmit(deps);
  const first = makeSubmission({ account: "acct_a", key: "order-2" });
  await submit(first);
  const other = await submit(makeSubmission({ account: "acct_a", key: "order-2", prompt: "something else" }));
  assert.equal(other.outcome?.case, "keyReused");
  assert.equal(requestProvider.questions.length, 1);
  acceptedOf(await submit(makeSubmission({ account: "acct_b", key: "order-2", prompt: "something else" })));
  const found = (prompt: string) => {
    const { requestHash } = makeSubmission({ prompt });
    return find(deps, {
      $typeName: "video.v1.FindSubmissionRequest",
      accountId: "acct_a",
      idempotencyKey: "order-2",
      requestHash,
    });
  };
  const same = await found("a cat in the rain");
  assert.ok(same.found?.case === "task" && same.found.value.taskId === taskIdOf(ridOf(first)));
  assert.equal((await found("something else")).found?.case, "keyReused");
});

test("a refused submission gives its idempotency key back, an unknown one keeps it", async () => {
  let answer: ProviderResult = answerOf(400);
  const requestProvider = scriptProviders(() => answer);
  const deps = submittingOn(database.pool, requestProvider);
  const submit = createSubmit(deps);
  const again = () => makeSubmission({ account: "acct_c", key: "order-3" });
  const findIt = async () => {
    const { requestHash } = again();
    const request = { $typeName: "video.v1.FindSubmissionRequest" as const, accountId: "acct_c", requestHash };
    return (await find(deps, { ...request, idempotencyKey: "order-3" })).found;
  };
  assert.equal(refusalOf(await submit(again())), RefusalReason.REJECTED);
  assert.equal(await findIt(), undefined);
  answer = { kind: "silent", cause: "cut" };
  assert.equal(refusalOf(await submit(again())), RefusalReason.UNKNOWN);
  answer = yes();
  assert.equal(refusalOf(await submit(again())), RefusalReason.UNKNOWN);
  const found = await findIt();
  assert.ok(found?.case === "refused" && found.value.reason === RefusalReason.UNKNOWN);
  assert.equal(requestProvider.questions.length, 2, "the key of an unknown submission sends nothing");
});

for (const [name, answer, found] of [
  ["taken, and tells the task", yes(), "task"],
  ["refused, after which the key is new", answerOf(400), undefined],
] as const) {
  test(`FindSubmission waits for a submission that is under way until it is ${name}`, async () => {
    const { requestProvider, release } = holdAnswers(answer);
    const deps = submittingOn(database.pool, requestProvider);
    const request = makeSubmission({ account: "acct_d", key: `order-${found}` });
    const submitted = createSubmit(deps)(request);
    await until("the provider is asked", () => requestProvider.questions.length > 0);
    const { requestHash, idempotencyKey } = request;
    const asked = { accountId: "acct_d", idempotencyKey, requestHash };
    let isRead = false;
    const watched = new Proxy(database.pool, {
      get: (pool, key: keyof Pool) => {
        if (key !== "query") return pool[key];
        return async (text: string, values: unknown[]) => {
          const rows = await pool.query(text, values);
          isRead = true;
          return rows;
        };
      },
    });
    const finding = find({ ...deps, pool: watched }, { $typeName: "video.v1.FindSubmissionRequest", ...asked });
    await until("the key is found", () => isRead);
    release();
    await submitted;
    assert.equal((await finding).found?.case, found);
  });
}

test("who waits for a submission of another process is told to ask again when this process stops", async () => {
  const { requestProvider, release } = holdAnswers();
  const request = makeSubmission();
  const submitted = submitWith(requestProvider)(request);
  await until("the provider is asked", () => requestProvider.questions.length > 0);
  const slots = createSlots({ ...defaultSlotLimits, drainMs: 10_000 });
  const waiting = assert.rejects(submitWith(requestProvider, { slots })(request), {
    message: "the submission is under way",
  });
  await slots[Symbol.asyncDispose]();
  await waiting;
  release();
  acceptedOf(await submitted);
});

const ambiguous: [string, ProviderResult][] = [
  ["no answer", { kind: "silent", cause: "the connection broke" }],
  ["500", answerOf(500)],
  ["502", answerOf(502)],
  ["504", answerOf(504)],
  ["a yes that cannot be read", answerOf(200, undefined)],
  ["a yes without an id", answerOf(200, { object: "video" })],
];

for (const [name, answer] of ambiguous) {
  test(`after ${name} a submission is unknown, costs nothing and is never sent again, to nobody`, async () => {
    const requestProvider = scriptProviders(() => answer);
    const submit = submitWith(requestProvider);
    const request = makeSubmission({ upstreams: ["first", "second"] });
    assert.equal(refusalOf(await submit(request)), RefusalReason.UNKNOWN);
    assert.equal(refusalOf(await submit(request)), RefusalReason.UNKNOWN);
    assert.equal(requestProvider.questions.length, 1);
    assert.deepEqual([(await rowOf(ridOf(request))).state, await eventsOf(ridOf(request))], ["unknown", []]);
  });
}

const certain: [string, ProviderResult][] = [
  ["no connection", { kind: "unsent", cause: "refused" }],
  ...[401, 402, 403, 429, 503].map((status): [string, ProviderResult] => [String(status), answerOf(status)]),
];

for (const [name, answer] of certain) {
  test(`after ${name} the next route is asked, and its yes is the outcome`, async () => {
    const requestProvider = scriptProviders(({ upstream }) => (upstream === "first" ? answer : yes()));
    const request = makeSubmission({ upstreams: ["first", "second"] });
    acceptedOf(await submitWith(requestProvider)(request));
    assert.deepEqual(
      requestProvider.questions.map(({ upstream }) => upstream),
      ["first", "second"],
    );
    const { upstream, charge } = await rowOf(ridOf(request));
    assert.deepEqual([upstream, fromBinary(UsageRecordedSchema, charge).modelServed], ["second", "second-model"]);
  });
}

test("a request that the first provider rejects is shown to no other; the last no is told with its wait", async () => {
  const rejecting = scriptProviders(() => answerOf(400));
  const refused = await submitWith(rejecting)(makeSubmission({ upstreams: ["first", "second"] }));
  assert.equal(refusalOf(refused), RefusalReason.REJECTED);
  assert.equal(rejecting.questions.length, 1);
  const limiting = scriptProviders(({ upstream }) => answerOf(upstream === "first" ? 503 : 429));
  const limited = await submitWith(limiting)(makeSubmission({ upstreams: ["third", "first", "second"] }));
  assert.equal(refusalOf(limited), RefusalReason.RATE);
  assert.ok(limited.outcome?.case === "refused" && limited.outcome.value.retryAfterSeconds === 7);
  assert.equal(limiting.questions.length, 2, "an upstream that is in no catalog is not asked");
});

test("a submission whose lease ends is unknown, and an acceptance after that changes nothing", async () => {
  await using own = await createTasksDatabase(server.postgres);
  const { requestProvider, release } = holdAnswers();
  const deps = submittingOn(own.pool, requestProvider);
  const request = makeSubmission({ key: "order-5" });
  const submitted = createSubmit(deps)(request);
  await until("the provider is asked", () => requestProvider.questions.length > 0);
  await query(own.ownerUrl, "UPDATE video_task.task SET lease_until = now() - interval '1 second'");
  const sweep = createSweepPass({ ...deps, leaseMs: 0, elapsedMs: () => 0 });
  await sweep();
  assert.equal((await rowOf(ridOf(request), own.ownerUrl)).state, "unknown");
  release();
  assert.equal(refusalOf(await submitted), RefusalReason.UNKNOWN);
  const row = await rowOf(ridOf(request), own.ownerUrl);
  assert.deepEqual([row.state, row.upstream_id, row.cost_nanos], ["unknown", null, null]);
  assert.equal((await query(own.ownerUrl, "SELECT FROM video_task.money_event")).rowCount, 0);
  assert.equal((await deps.metrics.lateAcceptances.get()).values[0]?.value, 1);
});

test("a process that is too late for its lease sends nothing, not to the next route either", async () => {
  const requestProvider = scriptProviders(() => yes());
  const request = makeSubmission({ upstreams: ["first", "second"] });
  assert.equal(refusalOf(await submitWith(requestProvider, { leaseMs: 0 })(request)), RefusalReason.STOPPING);
  assert.equal(requestProvider.questions.length, 0);
  assert.equal((await rowOf(ridOf(request))).state, "refused");
  const lost = scriptProviders(async () => {
    await query(
      database.ownerUrl,
      `UPDATE video_task.task SET state = 'unknown', lease_until = NULL, refusal = ${RefusalReason.UNKNOWN}
       WHERE state = 'submitting'`,
    );
    return answerOf(503);
  });
  const second = makeSubmission({ upstreams: ["first", "second"] });
  assert.equal(refusalOf(await submitWith(lost)(second)), RefusalReason.UNKNOWN);
  assert.equal(lost.questions.length, 1);
});

test("an acceptance whose commit was not answered is found as accepted, with one charge", async () => {
  let isLost = false;
  const forgetful = new Proxy(database.pool, {
    get: (pool, name: keyof Pool) => {
      if (name !== "query") return pool[name];
      return async (text: string, values: unknown[]) => {
        const answer = await pool.query(text, values);
        if (isLost || !text.startsWith("WITH accepted")) return answer;
        isLost = true;
        throw new Error("the connection broke");
      };
    },
  });
  const request = makeSubmission();
  const deps = submittingOn(
    forgetful,
    scriptProviders(() => yes()),
  );
  acceptedOf(await createSubmit(deps)(request));
  assert.equal(isLost, true);
  assert.equal((await eventsOf(ridOf(request))).length, 1);
  assert.equal((await deps.metrics.lateAcceptances.get()).values[0]?.value, 0);
});

test("an id of a provider that another task has already is no acceptance: unknown, and counted as late", async () => {
  const requestProvider = scriptProviders(() => yes("video_twice"));
  const deps = submittingOn(database.pool, requestProvider);
  const submit = createSubmit(deps);
  acceptedOf(await submit(makeSubmission()));
  assert.equal(refusalOf(await submit(makeSubmission())), RefusalReason.UNKNOWN);
  assert.equal((await deps.metrics.lateAcceptances.get()).values[0]?.value, 1);
});

test("beyond the slots of a process, and when it stops, a submission is unavailable and leaves no row", async () => {
  const { requestProvider, release } = holdAnswers();
  const slots = createSlots({ maxCalls: 1, maxBytes: 100, drainMs: 10_000 });
  const submit = submitWith(requestProvider, { slots });
  const running = submit(makeSubmission());
  const second = makeSubmission();
  await assert.rejects(submit(second), { code: "unavailable" });
  await until("the provider is asked", () => requestProvider.questions.length > 0);
  const drained = slots[Symbol.asyncDispose]();
  await assert.rejects(submit(second), { code: "unavailable", message: "this process is stopping" });
  release();
  acceptedOf(await running);
  await drained;
  assert.deepEqual(await rowsOf(ridOf(second)), []);
});

test("a rid of another account is refused, and does not show what became of it", async () => {
  const requestProvider = scriptProviders(() => yes());
  const submit = submitWith(requestProvider);
  const rid = createRid();
  await submit(makeSubmission({ rid }));
  await assert.rejects(submit(makeSubmission({ rid, account: "acct_e" })), { code: "invalid_argument" });
});

test("a line per submission names rid, account, upstream, outcome and cause, and never the prompt", async () => {
  const lines: Record<string, unknown>[] = [];
  const log = createLog("test", "info", { write: (line) => void lines.push(JSON.parse(line)) });
  const answers = [yes(), answerOf(400), answerOf(500)];
  const submit = submitWith(
    scriptProviders(() => answers.shift() ?? yes()),
    { log },
  );
  const requests = [1, 2, 3].map(() => makeSubmission({ prompt: "the secret prompt" }));
  for (const request of requests) await submit(request);
  assert.deepEqual(
    lines.map(({ rid, account, upstream, outcome, level }) => [rid, account, upstream, outcome, level]),
    [
      [ridOf(requests[0] ?? makeSubmission()), "acct_test", "first", "accepted", "info"],
      [ridOf(requests[1] ?? makeSubmission()), "acct_test", "first", "refused", "info"],
      [ridOf(requests[2] ?? makeSubmission()), "acct_test", "first", "unknown", "warn"],
    ],
  );
  assert.equal(typeof lines[1]?.["cause"], "string");
  assert.doesNotMatch(JSON.stringify(lines), /secret/);
});
