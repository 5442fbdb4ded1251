import { dayMs } from "#shared/process/clock.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  Finding,
  type GetReportRequest,
  type GetReportResponseSchema,
  type ReconcileRequest,
  type ReconcileResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { dayOfMs, oldestDays } from "../records/check.ts";
import { badRequest, detached, requireDay } from "../handlers/check-request.ts";
import { runChecks, type ReconcileDeps } from "./checks.ts";
import type { Window } from "../records/finding.ts";
import { contentOf, isComplete, signContent, toMessage, type KeptReport } from "#shared/money/report.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { forgetSettled } from "../store/quarantine.ts";
import { forgetCloseLines } from "../store/day-close.ts";
import { closeLedgerDay, findClosableDays } from "../store/reconcile-closing.ts";
import { findDetachedDay } from "../store/partitions.ts";
import { findUnequalSums } from "../store/reconcile-sums.ts";
import { forgetSessions } from "../store/session-progress.ts";
import { alone, countReports, forgetReports, insertReport, readReports } from "../store/reconcile-report.ts";

/** What changed lately: calls made from eleven minutes to one minute ago. */
export function windowOfLately(nowMs: number): Window {
  return { day: undefined, fromMs: nowMs - 660_000, untilMs: nowMs - 60_000, nowMs };
}

/** A day (UTC), as far as it has passed. */
export function windowOfDay(day: string, nowMs: number): Window {
  const fromMs = Date.parse(`${day}T00:00:00Z`);
  return { day, fromMs, untilMs: Math.min(fromMs + dayMs, nowMs), nowMs };
}

/** Makes the report of a day, signs it if there is a key, and keeps it. */
export async function reportDay(deps: ReconcileDeps, day: string): Promise<KeptReport> {
  const window = windowOfDay(day, deps.clock.nowMs());
  const lines = await runChecks(deps, window);
  const report = signContent(contentOf({ ...window, lines }), deps.signingKey);
  await insertReport(deps.pool, day, window.nowMs, report);
  return report;
}

const maxReports = 50;
const maxRuns = 2;
let runs = 0;

/** Answers Reconcile. Two runs at a time are made, more are `unavailable`: each reads much. */
export async function reconcile(
  deps: ReconcileDeps,
  { day }: ReconcileRequest,
): Promise<MessageInitShape<typeof ReconcileResponseSchema>> {
  const nowMs = deps.clock.nowMs();
  if (day !== "" && requireDay("day", day) > dayOfMs(nowMs)) throw badRequest("day must not be in the future");
  if (runs >= maxRuns) throw new ServiceError("unavailable", "the books are being reconciled; ask again later");
  if (day !== "" && (await findDetachedDay(deps.pool, day, day)) !== undefined) throw detached(day);
  if (day !== "" && (await countReports(deps.pool, day)) >= maxReports) {
    throw new ServiceError(
      "failed_precondition",
      `${maxReports} reports of ${day} are kept, which is all there may be`,
    );
  }
  runs += 1;
  try {
    if (day !== "") return { report: toMessage(await reportDay(deps, day)) };
    const window = windowOfLately(nowMs);
    const content = contentOf({ ...window, lines: await runChecks(deps, window) });
    const unsigned = toMessage({ content, signature: undefined, publicKey: undefined });
    return { report: { ...unsigned, content: new Uint8Array() } };
  } finally {
    runs -= 1;
  }
}

/** Answers GetReport: the newest report kept for the day, or `not_found`. */
export async function getReport(
  pool: Pool,
  { day }: GetReportRequest,
): Promise<MessageInitShape<typeof GetReportResponseSchema>> {
  const [newest] = await readReports(pool, requireDay("day", day), 1);
  if (!newest) throw new ServiceError("not_found", `no report is kept for ${day}`);
  return { report: toMessage(newest) };
}

// What is on its way when a day ends is booked by then, and long calls have ended.
const settleMs = 900_000;
const triesPerDay = 5;
// One day more than the ledger takes lines for, and one for clocks.
const closedAfterDays = oldestDays + 2;

/**
 * What is done every few minutes: a look at what changed lately, and, once a day is over for 15 minutes, its report. Of
 * several replicas one makes the report; one with checks that could not be made is made again, up to five times.
 */
export function createReconcilePass(deps: ReconcileDeps): () => Promise<void> {
  return async () => {
    const nowMs = deps.clock.nowMs();
    await runChecks(deps, windowOfLately(nowMs));
    const day = dayOfMs(nowMs - settleMs - dayMs);
    if (await isDue(deps.pool, day)) await alone(deps.pool, "billing.daily_report", () => reportIfDue(deps, day));
  };
}

// Another replica may have made it between the look and the lock.
async function reportIfDue(deps: ReconcileDeps, day: string): Promise<void> {
  if (!(await isDue(deps.pool, day))) return;
  const report = toMessage(await reportDay(deps, day));
  deps.log.info({ day }, "daily report created");
  const isSumRight = report.lines?.some(({ check, finding }) => check === "R1" && finding === Finding.RIGHT);
  await forgetOld(deps);
  if (!isSumRight) return;
  await closeOldDays(deps);
}

// What grows by the day and that nobody asks for after so long; see "What grows" in the README.
const bounded = {
  "old relay processes": forgetSessions,
  "settled records of the quarantine": forgetSettled,
  "old reports": forgetReports,
  "lines of days closed long ago": forgetCloseLines,
};

async function forgetOld({ pool, log }: ReconcileDeps): Promise<void> {
  for (const [what, forget] of Object.entries(bounded)) {
    const rows = await forget(pool);
    if (rows > 0n) log.info({ what, rows: `${rows}` }, "old rows forgotten");
  }
}

// Held against its lines once more: late lines are in, and nobody reads them again.
async function closeOldDays({ pool, clock, log }: ReconcileDeps): Promise<void> {
  for (const day of await findClosableDays(pool, dayOfMs(clock.nowMs() - closedAfterDays * dayMs))) {
    const [off] = await findUnequalSums(pool, day);
    if (off) {
      log.error(
        { day, sum: off.what, kept: off.kept, lines: off.summed },
        "sums differ from the lines: day not closed",
      );
      return;
    }
    if (await closeLedgerDay(pool, day)) log.info({ day }, "ledger day closed");
  }
}

async function isDue(pool: Pool, day: string): Promise<boolean> {
  const reports = await readReports(pool, day, triesPerDay);
  const overMs = Date.parse(`${day}T00:00:00Z`) + dayMs;
  return reports.length < triesPerDay && !reports.some((report) => isComplete(report, overMs));
}
