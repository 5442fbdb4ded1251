import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { type CheckedLine, emptyReport, judgeAccount, kindsOf, type Report } from "./checker.ts";
import { judgeCallers, keptPrompt } from "./task-callers.ts";
import type { HarmTime, MoneyEventRow, ProviderJob, TaskEvidence, TaskRow } from "./task-evidence.ts";

/** What became of tasks, beside what a report of calls tells. */
export type TaskCounts = {
  accepted: number;
  completed: number;
  failed: number;
  refused: number;
  unknown: number;
  charges: number;
  refunds: number;
  chargedNanos: bigint;
  refundedNanos: bigint;
  /** Tasks that a provider took and nobody is charged for, because a process died or stood still in between. */
  losses: number;
  /** The same where the provider itself kept its answer back. */
  providerLosses: number;
  /** Tasks that ended by their deadlines. */
  timeouts: number;
};

/** In `report` calls are submissions, served ones completed tasks, broken ones failed tasks. */
export type TaskFindings = { report: Report; counts: TaskCounts };

type TaskCase = {
  rid: string;
  row: TaskRow | undefined;
  jobs: ProviderJob[];
  lines: CheckedLine[];
  events: MoneyEventRow[];
};

// A submission is under way for so long at most before harm can strike it, and after the harm is over.
const [beforeHarmMs, afterHarmMs] = [6_000, 2_000];

/** The states of what a provider has taken. */
const takenStates: ReadonlySet<string> = new Set(["queued", "in_progress", "completed", "failed"]);

export const emptyCounts = (): TaskCounts => ({
  accepted: 0,
  completed: 0,
  failed: 0,
  refused: 0,
  unknown: 0,
  charges: 0,
  refunds: 0,
  chargedNanos: 0n,
  refundedNanos: 0n,
  losses: 0,
  providerLosses: 0,
  timeouts: 0,
});

/** Holds the ledger and the tasks against what callers were told and providers did; everything is at rest. */
export function checkTasks(evidence: TaskEvidence): TaskFindings {
  const findings = { report: { ...emptyReport(), calls: evidence.submissions.length }, counts: emptyCounts() };
  const { problems } = findings.report;
  for (const one of casesOf(evidence)) judge(one, evidence, findings);
  problems.push(...sentTwice(evidence), ...judgeCallers(evidence));
  for (const job of evidence.jobs) if (job.rid === null) problems.push(`${job.id}: submitted without a request id`);
  for (const account of evidence.accounts) judgeAccount(account, evidence, findings.report);
  return findings;
}

/** The counts in one line. */
export function formatCounts(counts: TaskCounts): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}

function casesOf({ rows, jobs, lines, events }: TaskEvidence): TaskCase[] {
  const cases = new Map<string, TaskCase>();
  const of = (rid: string): TaskCase => {
    const found = cases.get(rid) ?? { rid, row: undefined, jobs: [], lines: [], events: [] };
    cases.set(rid, found);
    return found;
  };
  for (const row of rows) of(row.rid).row = row;
  for (const job of jobs) if (job.rid !== null) of(job.rid).jobs.push(job);
  for (const line of lines) of(line.rid).lines.push(line);
  for (const event of events) of(event.rid).events.push(event);
  return [...cases.values()];
}

function judge(one: TaskCase, evidence: TaskEvidence, findings: TaskFindings): void {
  const { report } = findings;
  const complain = (problem: string): void => void report.problems.push(`${one.rid}: ${problem} (${storyOf(one)})`);
  if (one.jobs.length > 1) complain(`the provider took it ${one.jobs.length} times`);
  judgeMoney(one, evidence, findings, complain);
  if (one.row && takenStates.has(one.row.state)) judgeTaken(one, one.row, findings, complain);
  else judgeUntaken(one, evidence, findings, complain);
}

type Complain = (problem: string) => void;

/** What the lines of a task must sum to: minus its charge, and its refund. */
type Due = { chargeNanos: bigint; refundNanos: bigint };

// README of video-task, "Money": charged once when a provider takes it, refunded whole when it fails, refunded for what
// was not delivered of its length; what nobody took costs nothing.
function dueOf({ row, jobs: [job] }: TaskCase, { priceNanos }: TaskEvidence): Due {
  if (!row || !takenStates.has(row.state)) return { chargeNanos: 0n, refundNanos: 0n };
  const chargeNanos = priceNanos(row);
  if (row.state === "failed") return { chargeNanos, refundNanos: chargeNanos };
  const seconds = Math.min(row.seconds, job?.deliveredSeconds ?? row.seconds);
  const refundNanos = row.state === "completed" ? chargeNanos - priceNanos({ ...row, seconds }) : 0n;
  return { chargeNanos, refundNanos };
}

function judgeMoney(one: TaskCase, evidence: TaskEvidence, { report, counts }: TaskFindings, complain: Complain): void {
  const { row, lines, events } = one;
  const due = dueOf(one, evidence);
  const refunds = lines.filter(({ kind }) => kind === LineKind.REFUND);
  const charges = lines.filter(({ kind }) => kind !== LineKind.REFUND);
  const [chargedNanos, refundedNanos] = [-sumOf(charges), sumOf(refunds)];
  const isDouble = isRepeated(charges) || refunds.length > 1;
  const isMissing = chargedNanos < due.chargeNanos || refundedNanos > due.refundNanos;
  const isOver = chargedNanos > due.chargeNanos || refundedNanos < due.refundNanos;
  if (isDouble) complain("booked more than once");
  if (chargedNanos !== due.chargeNanos) complain(`must be charged ${due.chargeNanos}`);
  if (refundedNanos !== due.refundNanos) complain(`must be refunded ${due.refundNanos}`);
  if (row && lines.some(({ accountId }) => accountId !== row.accountId)) complain("booked to another account");
  for (const { kind, isBooked } of events) if (!isBooked) complain(`its ${kind} is still open`);
  counts.charges += charges.some(({ amountNanos }) => amountNanos !== 0n) ? 1 : 0;
  counts.refunds += refunds.length;
  counts.chargedNanos += chargedNanos;
  counts.refundedNanos += refundedNanos;
  report.missing += isMissing ? 1 : 0;
  report.double += isDouble ? 1 : 0;
  report.overcharged += isOver ? 1 : 0;
  const isRight = !isDouble && !isMissing && !isOver;
  report.booked += row?.state === "completed" && isRight ? 1 : 0;
}

function judgeTaken({ jobs: [job] }: TaskCase, row: TaskRow, { report, counts }: TaskFindings, complain: Complain) {
  counts.accepted += 1;
  if (!job || job.id !== row.upstreamId) complain(`no provider took it as ${row.upstreamId}`);
  if (job && row.prompt !== keptPrompt(row, job.prompt)) complain("the provider was asked for another video");
  if (row.state === "completed") {
    report.served += 1;
    counts.completed += 1;
    if (job?.end !== "completed") complain("completed, which its provider never said");
    return;
  }
  if (row.state !== "failed") return complain("has not ended");
  report.broken += 1;
  counts.failed += 1;
  const isTimeout = row.errorCode === "timeout";
  if (isTimeout) counts.timeouts += 1;
  const ranMs = (row.endedAtMs ?? 0) - (row.acceptedAtMs ?? 0);
  if (isTimeout && ranMs < row.deadlineMs) complain(`timed out after ${ranMs} of ${row.deadlineMs} ms`);
  const isSaid = job?.end === "failed" || isTimeout || (job?.isForgotten === true && row.errorCode === "not_found");
  if (!isSaid) complain(`failed as ${row.errorCode}, which its provider never said`);
}

function judgeUntaken(
  { row, jobs: [job] }: TaskCase,
  evidence: TaskEvidence,
  { counts }: TaskFindings,
  complain: Complain,
): void {
  if (row?.state === "submitting") complain("is still being submitted");
  if (row?.state === "refused") counts.refused += 1;
  if (row?.state === "unknown") counts.unknown += 1;
  if (row?.state !== "unknown") return job ? complain("a provider took it, which nobody knows") : undefined;
  if (job?.isAnswerLost) counts.providerLosses += 1;
  else if (job) counts.losses += 1;
  const isSound = evidence.submissions.some((submission) => submission.isSound && submission.prompt === row.prompt);
  const isStruck = isBesideHarm(job?.acceptedAtMs ?? row.createdAtMs, evidence.harms);
  if (!job?.isAnswerLost && (job || isSound) && !isStruck)
    complain("unknown, and nothing had happened that loses a submission");
}

function isBesideHarm(atMs: number, harms: readonly HarmTime[]): boolean {
  return harms.some(({ fromMs, toMs }) => atMs >= fromMs - beforeHarmMs && atMs <= toMs + afterHarmMs);
}

// A next provider is asked only after the one before has certainly not taken it; none is asked twice.
function sentTwice({ sends }: TaskEvidence): string[] {
  const counts = Map.groupBy(sends, ({ rid, api }) => `${rid} to ${api}`);
  return [...counts].flatMap(([what, some]) => (some.length > 1 ? [`${what}: submitted ${some.length} times`] : []));
}

// One charge, or one provisional charge of a relay that died and one adjustment of it.
function isRepeated(charges: readonly CheckedLine[]): boolean {
  const kinds = charges.map(({ kind }) => kind);
  return new Set(kinds).size < kinds.length || (kinds.includes(LineKind.CHARGE) && kinds.length > 1);
}

function storyOf({ row, jobs, lines }: TaskCase): string {
  const ends = jobs.map(({ end }) => end ?? "no end");
  const task = row ? `${row.state} ${row.errorCode ?? ""}` : "no row";
  return [task.trim(), `provider: ${ends.join(", ") || "nothing"}`, `${kindsOf(lines)}, in all ${sumOf(lines)}`].join(
    "; ",
  );
}

function sumOf(lines: readonly CheckedLine[]): bigint {
  return lines.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
}
