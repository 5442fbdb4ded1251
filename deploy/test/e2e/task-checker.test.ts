import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { CheckedAccount, CheckedLine } from "./checker.ts";
import { checkTasks, formatCounts } from "./task-checker.ts";
import type { Listing, ProviderJob, Sighting, Submission, TaskEvidence, TaskRow } from "./task-evidence.ts";

const accountId = "acct_1";
const creditedNanos = 10_000n;
const askedSeconds = 8;
const nanosPerSecond = 10n;

const ridOf = (number: number): string => `00000000-0000-7000-8000-${String(number).padStart(12, "0")}`;
const idOf = (number: number): string => `video_${ridOf(number).replaceAll("-", "")}`;

function rowOf(number: number, state: string, changes: Partial<TaskRow> = {}): TaskRow {
  const asked = { model: "clip", prompt: `task ${number}`, seconds: askedSeconds, size: "1280x720", deadlineMs: 1_000 };
  const times = { createdAtMs: 100_000, acceptedAtMs: 100_100, endedAtMs: 102_000 };
  const names = { rid: ridOf(number), accountId, idempotencyKey: null, upstreamId: `job-${number}` };
  return { ...names, ...asked, ...times, state, errorCode: null, isDeleted: false, ...changes };
}

function jobOf(number: number, changes: Partial<ProviderJob> = {}): ProviderJob {
  const names = { id: `job-${number}`, rid: ridOf(number), prompt: `task ${number}`, acceptedAtMs: 100_050 };
  const manner = { deliveredSeconds: askedSeconds, fileBytes: 64, isAnswerLost: false, isForgotten: false };
  return { ...names, end: "completed", ...manner, ...changes };
}

function lineOf(number: number, kind: LineKind, amountNanos: bigint): CheckedLine {
  return { rid: ridOf(number), accountId, kind, amountNanos, relaySession: "", sequence: 0n };
}

const chargeOf = (number: number): CheckedLine => lineOf(number, LineKind.CHARGE, -80n);
const refundOf = (number: number, amountNanos = 80n): CheckedLine => lineOf(number, LineKind.REFUND, amountNanos);

function answerOf(number: number, changes: Partial<Submission> = {}): Submission {
  const asked = { accountId, prompt: `task ${number}`, isSound: true, idempotencyKey: undefined };
  const answer = { rid: ridOf(number), status: 200, retryAfter: undefined, isOutcomeUnknown: false, reason: "" };
  return { ...asked, ...answer, taskId: idOf(number), ...changes };
}

function sightingOf(number: number, status: string, atMs: number, changes: Partial<Sighting> = {}): Sighting {
  const times = { askedAtMs: atMs, answeredAtMs: atMs + 1 };
  return { accountId, taskId: idOf(number), status, progress: 0, errorCode: undefined, ...times, ...changes };
}

function accountOf(spentNanos: bigint, changes: Partial<CheckedAccount> = {}): CheckedAccount {
  const balanceNanos = creditedNanos + spentNanos;
  const rest = { openHolds: 0n, unpostedCalls: 0n };
  return { accountId, creditedNanos, balanceNanos, availableNanos: balanceNanos, ...rest, ...changes };
}

const refused = answerOf(4, { status: 400, taskId: undefined, reason: "no" });
const lost = answerOf(6, { status: 500, taskId: undefined, isOutcomeUnknown: true });
const listing: Listing = { accountId, taskIds: [idOf(1), idOf(2), idOf(3)] };

// 1 completed, 2 failed, 3 delivered short and submitted twice under one key, 4 refused, 5 unknown because the provider
// did not answer, 6 unknown because a process died.
const right: TaskEvidence = {
  submissions: [
    answerOf(1),
    answerOf(2),
    answerOf(3, { idempotencyKey: "key" }),
    answerOf(3, { idempotencyKey: "key", rid: ridOf(9) }),
    refused,
    lost,
  ],
  sightings: [
    sightingOf(1, "queued", 1),
    sightingOf(1, "in_progress", 3, { progress: 40 }),
    sightingOf(1, "completed", 5, { progress: 100 }),
    sightingOf(2, "failed", 1, { errorCode: "boom" }),
  ],
  downloads: [{ accountId, taskId: idOf(1), status: 200, bytes: 64 }],
  listings: [listing],
  jobs: [
    jobOf(1),
    jobOf(2, { end: "failed" }),
    jobOf(3, { deliveredSeconds: 5 }),
    jobOf(5, { isAnswerLost: true }),
    jobOf(6, { acceptedAtMs: 100_300 }),
  ],
  sends: [1, 2, 3, 4, 5, 6].map((number) => ({ rid: ridOf(number), api: "openai" })),
  rows: [
    rowOf(1, "completed"),
    rowOf(2, "failed", { errorCode: "boom" }),
    rowOf(3, "completed", { idempotencyKey: "key" }),
    rowOf(4, "refused", { upstreamId: null }),
    rowOf(5, "unknown", { upstreamId: null }),
    rowOf(6, "unknown", { upstreamId: null }),
  ],
  events: [{ rid: ridOf(2), kind: "refund", isBooked: true }],
  lines: [chargeOf(1), chargeOf(2), refundOf(2), chargeOf(3), refundOf(3, 30n), lineOf(4, LineKind.CHARGE, 0n)],
  accounts: [accountOf(-130n)],
  priceNanos: ({ seconds }) => BigInt(seconds) * nanosPerSecond,
  harms: [{ fromMs: 100_400, toMs: 100_900 }],
};

const withoutLine = (kind: LineKind, number: number): CheckedLine[] =>
  right.lines.filter((line) => line.kind !== kind || line.rid !== ridOf(number));
const withRow = (row: TaskRow): TaskRow[] => [...right.rows.filter(({ rid }) => rid !== row.rid), row];
const withJob = (job: ProviderJob): ProviderJob[] => [...right.jobs.filter(({ rid }) => rid !== job.rid), job];

type Wrong = { wrong: string; evidence: Partial<TaskEvidence>; problem: RegExp; counts?: Record<string, unknown> };

const wrongMoney: Wrong[] = [
  {
    wrong: "an accepted task without a charge",
    evidence: { lines: withoutLine(LineKind.CHARGE, 1), accounts: [accountOf(-50n)] },
    problem: /000001: must be charged 80 \(completed; provider: completed; no line, in all 0\)/,
    counts: { missing: 1, booked: 1 },
  },
  {
    wrong: "a task that is charged twice",
    evidence: { lines: [...right.lines, chargeOf(1)], accounts: [accountOf(-210n)] },
    problem: /000001: booked more than once/,
    counts: { double: 1, overcharged: 1 },
  },
  {
    wrong: "a charge at another price",
    evidence: {
      lines: [...withoutLine(LineKind.CHARGE, 1), lineOf(1, LineKind.CHARGE, -81n)],
      accounts: [accountOf(-131n)],
    },
    problem: /000001: must be charged 80/,
    counts: { overcharged: 1 },
  },
  {
    wrong: "a failed task that is not refunded",
    evidence: { lines: withoutLine(LineKind.REFUND, 2), accounts: [accountOf(-210n)] },
    problem: /000002: must be refunded 80/,
    counts: { overcharged: 1 },
  },
  {
    wrong: "a failed task that is refunded twice",
    evidence: { lines: [...right.lines, refundOf(2)], accounts: [accountOf(-50n)] },
    problem: /000002: booked more than once/,
    counts: { double: 1, missing: 1 },
  },
  {
    wrong: "a completed task that is refunded",
    evidence: { lines: [...right.lines, refundOf(1)], accounts: [accountOf(-50n)] },
    problem: /000001: must be refunded 0/,
    counts: { missing: 1 },
  },
  {
    wrong: "a short delivery at full price",
    evidence: { lines: withoutLine(LineKind.REFUND, 3), accounts: [accountOf(-160n)] },
    problem: /000003: must be refunded 30/,
    counts: { overcharged: 1 },
  },
  {
    wrong: "a refused task that is charged",
    evidence: { lines: [...right.lines, chargeOf(4)], accounts: [accountOf(-210n)] },
    problem: /000004: must be charged 0/,
  },
  {
    wrong: "an unknown task that is charged",
    evidence: { lines: [...right.lines, chargeOf(5)], accounts: [accountOf(-210n)] },
    problem: /000005: must be charged 0/,
  },
  {
    wrong: "a charge of no task at all",
    evidence: { lines: [...right.lines, chargeOf(7)], accounts: [accountOf(-210n)] },
    problem: /000007: must be charged 0 \(no row/,
  },
  {
    wrong: "a charge of another account",
    evidence: { rows: withRow(rowOf(1, "completed", { accountId: "acct_2" })) },
    problem: /000001: booked to another account/,
  },
  {
    wrong: "money that is still on its way",
    evidence: { events: [{ rid: ridOf(2), kind: "refund", isBooked: false }] },
    problem: /000002: its refund is still open/,
  },
  {
    wrong: "a hold that stays open",
    evidence: { accounts: [accountOf(-130n, { openHolds: 1n, availableNanos: 9_000n })] },
    problem: /acct_1: 1 holds are open/,
  },
  {
    wrong: "an account that spent more than it had",
    evidence: {
      accounts: [accountOf(-130n, { creditedNanos: 100n, balanceNanos: -30n, availableNanos: -30n })],
    },
    problem: /acct_1: spent 30 more than it had/,
  },
];

const wrongTasks: Wrong[] = [
  {
    wrong: "a task that a provider took twice",
    evidence: { jobs: [...right.jobs, jobOf(1)] },
    problem: /000001: the provider took it 2 times/,
  },
  {
    wrong: "a task that was submitted twice to one provider",
    evidence: { sends: [...right.sends, { rid: ridOf(4), api: "openai" }] },
    problem: /000004 to openai: submitted 2 times/,
  },
  {
    wrong: "a task that was submitted under no request id",
    evidence: { jobs: [...right.jobs, jobOf(8, { rid: null })] },
    problem: /job-8: submitted without a request id/,
  },
  {
    wrong: "a task that no provider took",
    evidence: { jobs: right.jobs.filter(({ id }) => id !== "job-1") },
    problem: /000001: no provider took it as job-1/,
  },
  {
    wrong: "a task whose provider was asked for another video",
    evidence: { jobs: withJob(jobOf(1, { prompt: "task 2" })) },
    problem: /000001: the provider was asked for another video/,
  },
  {
    wrong: "a deleted task that keeps its prompt",
    evidence: { rows: withRow(rowOf(1, "completed", { isDeleted: true })) },
    problem: /000001: the provider was asked for another video/,
  },
  {
    wrong: "a task that a provider took and that counts as refused",
    evidence: { jobs: [...right.jobs, jobOf(4)] },
    problem: /000004: a provider took it, which nobody knows/,
  },
  {
    wrong: "a task that a provider took without an intent",
    evidence: { jobs: [...right.jobs, jobOf(8)] },
    problem: /000008: a provider took it, which nobody knows/,
  },
  {
    wrong: "a loss for which nothing has happened",
    evidence: { harms: [] },
    problem: /000006: unknown, and nothing had happened/,
  },
  {
    wrong: "a sound submission that counts as unknown, for which nothing has happened",
    evidence: {
      rows: withRow(rowOf(7, "unknown")),
      submissions: [...right.submissions, answerOf(7, { ...lost, rid: ridOf(7), prompt: "task 7" })],
      harms: right.harms.map(({ fromMs, toMs }) => ({ fromMs: fromMs + 60_000, toMs: toMs + 60_000 })),
    },
    problem: /000007: unknown, and nothing had happened/,
  },
  {
    wrong: "a task that is still being submitted",
    evidence: { rows: withRow(rowOf(6, "submitting")) },
    problem: /000006: is still being submitted/,
  },
  {
    wrong: "a task that does not end",
    evidence: { rows: withRow(rowOf(1, "in_progress")) },
    problem: /000001: has not ended/,
  },
  {
    wrong: "a completion that the provider never told",
    evidence: { jobs: withJob(jobOf(1, { end: "failed" })) },
    problem: /000001: completed, which its provider never said/,
  },
  {
    wrong: "a failure that the provider never told",
    evidence: { jobs: withJob(jobOf(2)) },
    problem: /000002: failed as boom, which its provider never said/,
  },
  {
    wrong: "a task that timed out before its deadline",
    evidence: { rows: withRow(rowOf(2, "failed", { errorCode: "timeout", endedAtMs: 100_200 })) },
    problem: /000002: timed out after 100 of 1000 ms/,
  },
];

const wrongCallers: Wrong[] = [
  {
    wrong: "an accepted answer for which there is no task",
    evidence: { submissions: [...right.submissions, answerOf(8)] },
    problem: /000008: accepted, but there is no task/,
  },
  {
    wrong: "an accepted answer for a task that counts as unknown",
    evidence: { submissions: [...right.submissions, answerOf(6)] },
    problem: /000006: accepted, but its task is unknown/,
  },
  {
    wrong: "a refusal of a task that was taken",
    evidence: { submissions: [...right.submissions, { ...refused, rid: ridOf(1) }] },
    problem: /000001: refused with 400, but taken/,
  },
  {
    wrong: "the answer to another submission",
    evidence: { submissions: [...right.submissions, answerOf(1, { prompt: "task 2" })] },
    problem: /000001: the answer to another submission/,
  },
  {
    wrong: "two tasks of one idempotency key",
    evidence: { submissions: [...right.submissions, answerOf(1, { idempotencyKey: "key" })] },
    problem: /key acct_1 key: answered with 2 tasks/,
  },
  {
    wrong: "two tasks at providers of one idempotency key",
    evidence: { jobs: [...right.jobs, jobOf(8, { prompt: "task 3" })] },
    problem: /key acct_1 key: providers took 2 tasks/,
  },
  {
    wrong: "a terminal status that is another one later",
    evidence: { sightings: [...right.sightings, sightingOf(1, "failed", 9)] },
    problem: /000001: shown as failed, but it is completed/,
  },
  {
    wrong: "a status that goes back",
    evidence: { sightings: [...right.sightings, sightingOf(1, "queued", 9)] },
    problem: /000001: shown as in_progress 40, and later as queued 0/,
  },
  {
    wrong: "a progress that falls",
    evidence: { sightings: [...right.sightings, sightingOf(1, "in_progress", 4.5, { progress: 39 })] },
    problem: /000001: shown as in_progress 40, and later as in_progress 39/,
  },
  {
    wrong: "a task that is shown to a stranger",
    evidence: { sightings: [...right.sightings, sightingOf(1, "completed", 9, { accountId: "acct_2" })] },
    problem: /000001: shown to acct_2/,
  },
  {
    wrong: "a task that is shown and does not exist",
    evidence: { sightings: [...right.sightings, sightingOf(8, "queued", 9)] },
    problem: /000008: shown, but there is no task/,
  },
  {
    wrong: "another reason of a failure",
    evidence: { sightings: [...right.sightings, sightingOf(2, "failed", 9, { errorCode: "crash" })] },
    problem: /000002: shown as failed by crash, but it is boom/,
  },
  {
    wrong: "a file of a task that failed",
    evidence: { downloads: [{ accountId, taskId: idOf(2), status: 200, bytes: 64 }] },
    problem: /000002: downloaded, but it is failed/,
  },
  {
    wrong: "a file that is not the provider's",
    evidence: { downloads: [{ accountId, taskId: idOf(1), status: 200, bytes: 63 }] },
    problem: /000001: 63 bytes of a file of 64/,
  },
  {
    wrong: "a task that is not listed",
    evidence: { listings: [{ accountId, taskIds: listing.taskIds.slice(1) }] },
    problem: /000001: a task of acct_1 that is not listed/,
  },
  {
    wrong: "a task that is listed twice",
    evidence: { listings: [{ accountId, taskIds: [...listing.taskIds, idOf(1)] }] },
    problem: /acct_1: a task is listed twice/,
  },
  {
    wrong: "a refused task that is listed",
    evidence: { listings: [{ accountId, taskIds: [...listing.taskIds, idOf(4)] }] },
    problem: /000004: listed for acct_1, which has no such task/,
  },
];

describe("the checker of video tasks", () => {
  test("finds nothing wrong with tasks that are right, and counts them", () => {
    const { report, counts } = checkTasks(right);
    assert.deepEqual(report.problems, []);
    const { calls, served, booked, broken, missing, double, overcharged } = report;
    assert.deepEqual([calls, served, booked, broken, missing, double, overcharged], [6, 2, 2, 1, 0, 0, 0]);
    assert.equal(
      formatCounts(counts),
      "accepted 3, completed 2, failed 1, refused 1, unknown 2, charges 3, refunds 2, chargedNanos 240, " +
        "refundedNanos 110, losses 1, providerLosses 1, timeouts 0",
    );
  });

  test("lets a task end by its deadline, or because its provider has forgotten it, and be deleted", () => {
    const timedOut = rowOf(2, "failed", { errorCode: "timeout" });
    const gone = { rows: withRow(rowOf(2, "failed", { errorCode: "not_found" })), sightings: [] };
    const deleted = { rows: withRow(rowOf(1, "completed", { isDeleted: true, prompt: "" })) };
    const cases: Partial<TaskEvidence>[] = [
      { rows: withRow(timedOut), jobs: withJob(jobOf(2, { end: undefined })), sightings: [] },
      { ...gone, jobs: withJob(jobOf(2, { end: undefined, isForgotten: true })) },
      { ...deleted, listings: [{ accountId, taskIds: listing.taskIds.slice(1) }] },
    ];
    for (const one of cases) assert.deepEqual(checkTasks({ ...right, ...one }).report.problems, []);
  });

  test("takes a relay that died into account: a provisional charge and its adjustment are one charge", () => {
    const adjusted = [lineOf(1, LineKind.PROVISIONAL_CHARGE, 0n), lineOf(1, LineKind.FINAL_ADJUSTMENT, -80n)];
    const lines = [...withoutLine(LineKind.CHARGE, 1), ...adjusted];
    assert.deepEqual(checkTasks({ ...right, lines }).report.problems, []);
  });

  for (const { wrong, evidence, problem, counts = {} } of [...wrongMoney, ...wrongTasks, ...wrongCallers]) {
    test(`sees ${wrong}`, () => {
      const { report } = checkTasks({ ...right, ...evidence });
      assert.match(report.problems.join("\n"), problem);
      assert.deepEqual({ ...report, ...counts }, report);
    });
  }
});
