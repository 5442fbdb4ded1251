import type { KeyObject } from "node:crypto";
import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { dayMs, type Clock } from "#shared/process/clock.ts";
import type { Logger } from "#shared/process/log.ts";
import { dayOfMs } from "../records/check.ts";
import type { Metrics } from "../metrics.ts";
import type { NatsLink } from "../intake/nats.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { judgeCalls, judgeSums, judgeUnequal } from "./books.ts";
import { judgeEstimates, judgeInvoices, judgeLosses } from "./calls.ts";
import { compareHot, judgeAged, judgeHot, type HotAudit, type HotComparison } from "./hot.ts";
import { counted, right, unchecked, type CheckResult, type Window } from "../records/finding.ts";
import { judgeOddities } from "./quarantine.ts";
import { countHoles, judgeCompleteness, readCompleteness } from "./sessions.ts";
import { compareStream, judgeStream } from "./stream.ts";
import { findingWord, type ReportLine } from "#shared/money/report.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { countAccounts, findWrongCalls, findWrongSums, readChangedAccounts } from "../store/reconcile-books.ts";
import { readEstimates, readInvoiced, readLosses, readProvisional } from "../store/reconcile-calls.ts";
import { findUnequalSums } from "../store/reconcile-sums.ts";
import { countDoubts, readLateFinals, readOpenQuarantine, readPriceSamples } from "../store/reconcile-quarantine.ts";

/** What reconciliation needs. */
export type ReconcileDeps = {
  pool: Pool;
  nats: NatsLink;
  authQuota: HotAudit;
  metrics: Metrics;
  clock: Clock;
  log: Logger;
  /** Signs reports; without it they are kept unsigned. */
  signingKey: KeyObject | undefined;
};

/** One run: what it looks at, and what several checks share. */
type Run = {
  deps: ReconcileDeps;
  window: Window;
  bounds: Bounds;
  changed: () => Promise<string[]>;
  hot: () => Promise<HotComparison>;
};

type Bounds = { accounts: number; streamEvents: number };

const bounds = {
  lately: { accounts: 1_000, streamEvents: 100_000 },
  day: { accounts: 10_000, streamEvents: 1_000_000 },
} satisfies Record<string, Bounds>;
const outboxRecords = 1_000;
// Days on which a call can still get a line.
const openDays = 61;

type Check = { check: string; name: string; run: (run: Run) => Promise<CheckResult> };

const checks: Check[] = [
  { check: "R1", name: "balances are the sums of their lines", run: checkSums },
  { check: "R2", name: "no event is missing", run: checkCompleteness },
  { check: "R3", name: "no call is charged twice", run: checkCalls },
  { check: "R4", name: "the stream is booked", run: checkStream },
  { check: "R5", name: "the hot store agrees with the ledger", run: async ({ hot }) => judgeHot(await hot()) },
  { check: "R6", name: "nothing is open for too long", run: checkAged },
  {
    check: "R7",
    name: "holds are estimated well",
    run: async (run) => judgeEstimates(await readEstimates(run.deps.pool, run.window)),
  },
  { check: "R8", name: "invoices of providers agree", run: checkInvoices },
  {
    check: "R9",
    name: "known losses",
    run: async ({ deps, window }) => judgeLosses(await readLosses(deps.pool, window)),
  },
  { check: "R10", name: "nothing waits for a decision", run: checkOddities },
  { check: "R11", name: "sums are those of the lines", run: checkUnequal },
];

async function checkSums({ deps: { pool }, window, bounds: { accounts }, changed }: Run): Promise<CheckResult> {
  if (window.day !== undefined) {
    const rows = await findWrongSums(pool, undefined);
    return judgeSums(rows, counted(await countAccounts(pool), "account"));
  }
  const ids = await changed();
  const most = ids.length > accounts ? ` (of more, the day's report looks at all)` : "";
  const looked = ids.slice(0, accounts);
  return judgeSums(await findWrongSums(pool, looked), `${counted(looked.length, "account")} that changed${most}`);
}

// Adding up a partition again is for the report of a day.
async function checkUnequal({ deps: { pool }, window: { day } }: Run): Promise<CheckResult> {
  if (day === undefined) return right("the day's report looks at them");
  return judgeUnequal(await findUnequalSums(pool, day), day);
}

async function checkCompleteness({ deps: { pool, authQuota, metrics, log }, window }: Run): Promise<CheckResult> {
  const completeness = await readCompleteness(pool, window, async () => {
    try {
      return (await authQuota.listUnposted({ minAgeMs: 0n, limit: outboxRecords })).records;
    } catch (error) {
      log.warn({ err: error }, "failed to search auth-quota's outbox for missing events");
      return undefined;
    }
  });
  metrics.sessionHoles.set(Number(countHoles(completeness.holes)));
  return judgeCompleteness(completeness);
}

async function checkCalls({ deps: { pool }, window }: Run): Promise<CheckResult> {
  // Looking at every line of all open days is for the report of a day; before that no line has a day after tomorrow.
  const wrongDaysFromMs = window.day === undefined ? window.nowMs + 2 * dayMs : window.fromMs - openDays * dayMs;
  return judgeCalls(await findWrongCalls(pool, window, dayOfMs(wrongDaysFromMs)));
}

async function checkStream({ deps, window, bounds: { streamEvents } }: Run): Promise<CheckResult> {
  return judgeStream(await compareStream(deps, window, streamEvents));
}

async function checkAged({ deps: { pool }, window: { day, nowMs }, hot }: Run): Promise<CheckResult> {
  const firstDay = dayOfMs(nowMs - (day === undefined ? 2 : openDays) * dayMs);
  return judgeAged(await hot(), await readProvisional(pool, firstDay, firstUuidAt(nowMs - dayMs)));
}

async function checkInvoices({ deps: { pool }, window: { day, nowMs } }: Run): Promise<CheckResult> {
  return judgeInvoices(await readInvoiced(pool, day ?? dayOfMs(nowMs - dayMs)));
}

async function checkOddities({ deps: { pool }, window }: Run): Promise<CheckResult> {
  return judgeOddities({
    quarantined: await readOpenQuarantine(pool),
    doubts: await countDoubts(pool),
    prices: await readPriceSamples(pool, window),
    late: await readLateFinals(pool, window),
  });
}

/** Makes all checks, one after the other. A check that fails is unchecked, which is not right. */
export async function runChecks(deps: ReconcileDeps, window: Window): Promise<ReportLine[]> {
  const changed = once(() => readChangedAccounts(deps.pool, window, limits.accounts));
  const limits = window.day === undefined ? bounds.lately : bounds.day;
  const hot = once(async () => compareHot(deps, (await changed()).slice(0, limits.accounts)));
  const run: Run = { deps, window, bounds: limits, changed, hot };
  const lines: ReportLine[] = [];
  for (const { check, name, run: look } of checks) {
    lines.push({ check, name, ...(await look(run).catch((error: unknown) => failed(deps, check, error))) });
  }
  note(deps, window, lines);
  return lines;
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let started: Promise<T> | undefined;
  return () => (started ??= work());
}

function failed({ log }: ReconcileDeps, check: string, error: unknown): CheckResult {
  log.error({ err: error, check }, "reconciliation check failed to run");
  return unchecked(`could not be checked: ${error instanceof Error ? error.message : String(error)}`);
}

function note({ metrics, log }: ReconcileDeps, { day, nowMs }: Window, lines: readonly ReportLine[]): void {
  const run = day === undefined ? "lately" : "day";
  for (const { check, finding, differenceNanos, summary, items } of lines) {
    metrics.reconciliationDifference.set({ run, check }, Number(differenceNanos));
    for (const each of [Finding.RIGHT, Finding.LISTED, Finding.WRONG, Finding.UNCHECKED]) {
      metrics.reconciliationFindings.set({ run, check, finding: findingWord(each) }, each === finding ? 1 : 0);
    }
    if (finding === Finding.WRONG) log.error({ check, day, items: items.slice(0, 10) }, `books are wrong: ${summary}`);
  }
  metrics.reconciliationLastRun.set({ run }, nowMs / 1_000);
  const isSuccess = lines.every(({ finding }) => finding === Finding.RIGHT || finding === Finding.LISTED);
  if (isSuccess) metrics.reconciliationLastSuccess.set({ run }, nowMs / 1_000);
}
