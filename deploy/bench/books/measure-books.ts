import { setTimeout } from "node:timers/promises";
import { Registry } from "prom-client";
import { dayMs, systemClock } from "#shared/process/clock.ts";
import { createLog } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { createMetrics } from "../../../services/billing/metrics.ts";
import { runChecks } from "../../../services/billing/reconcile/checks.ts";
import { windowOfDay } from "../../../services/billing/reconcile/reconcile.ts";
import { readAccounts } from "../../../services/billing/store/funds.ts";
import { type BusinessGroup, readBusiness } from "../../../services/billing/store/business.ts";
import { readLines } from "../../../services/billing/store/lines.ts";
import { moveFence, sumStep } from "../../../services/billing/store/make-sums.ts";
import { readStatement } from "../../../services/billing/store/statement.ts";
import { sumUsage } from "../../../services/billing/store/usage.ts";
import { createLedger } from "../../../services/billing/testing/ledger.ts";
import { readTreeCpuUs } from "../process-use.ts";
import { median } from "../statistics.ts";
import { renderTable } from "../table.ts";
import { fillLedger, largeAccount, type LedgerSize } from "./fill-ledger.ts";
import { measureWays } from "./measure-ways.ts";

const runs = 7;
const maxReadMs = 100;
const maxReconcileMs = 30_000;
// What others are measured by: their milliseconds are those of the machine.
const oneRead = "20 lines by their index";

/** Milliseconds (a median), the bar in the same, and how often partitions of closed days were looked into. */
export type BooksFigure = { what: string; ms: number; maxMs: number; closedScans: number };

/** Makes a ledger, sums it up, and measures what reads it. */
export async function measureBooks(size: LedgerSize, say: (text: string) => void): Promise<BooksFigure[]> {
  await using resources = new AsyncDisposableStack();
  const { postgres } = resources.use(await startStores({ postgres: true }));
  const { pool, ownerUrl } = resources.use(await createLedger(postgres));
  await fillLedger(ownerUrl, size, say);
  say(await measureWays(pool, ownerUrl, postgres.pid));
  const startedMs = performance.now();
  const cpuBeforeUs = readTreeCpuUs(postgres.pid);
  await moveFence(pool, Date.now());
  while ((await sumStep(pool)) !== "idle");
  const cpuUs = (readTreeCpuUs(postgres.pid) - cpuBeforeUs) / (size.lines / 1_000);
  const seconds = Math.round((performance.now() - startedMs) / 1_000);
  say(`summed up the whole ledger in ${seconds} s, ${Math.round(cpuUs)} µs of PostgreSQL per 1,000 lines`);
  const figures: BooksFigure[] = [];
  for (const { what, read, maxMs, runs: times } of readings(pool)) {
    await read();
    const before = await countClosedScans(pool);
    const taken: number[] = [];
    for (let run = 0; run < times; run += 1) taken.push(await timed(read));
    figures.push({ what, ms: median(taken), maxMs, closedScans: (await countClosedScans(pool)) - before });
  }
  say(tableOf(figures));
  if (figures.some(({ ms, maxMs, closedScans: scans }) => ms > maxMs || scans > 0)) process.exitCode = 1;
  return figures;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

type Reading = { what: string; read: () => Promise<unknown>; maxMs: number; runs: number };

function readings(pool: Pool): Reading[] {
  const nowMs = Date.now();
  const today = Math.floor(nowMs / dayMs) * dayMs;
  const last = (days: number) => ({ fromMs: today - (days - 1) * dayMs, untilMs: today + dayMs });
  const usage = (days: number, groupBy: "day" | "model" | "key") =>
    sumUsage(pool, { accountId: largeAccount, keyId: undefined, model: undefined, span: last(days), groupBy });
  const statement = (days: number) => readStatement(pool, { accountId: largeAccount, span: last(days) });
  const lines = {
    accountId: largeAccount,
    limit: 20,
    newestMs: nowMs,
    before: undefined,
    call: undefined,
    kind: undefined,
  };
  const overview = async () => {
    await Promise.all([usage(31, "day"), readAccounts(pool, [largeAccount]), readLines(pool, lines)]);
  };
  const dayAt = (atMs: number): string => new Date(atMs).toISOString().slice(0, 10);
  const business = (days: number, groupBy: BusinessGroup) => {
    const { fromMs, untilMs } = last(days);
    const span = { fromDay: dayAt(fromMs), untilDay: dayAt(untilMs) };
    return readBusiness(pool, { ...span, groupBy, accountId: undefined, limit: 100 }, new Map());
  };
  const bar = { maxMs: maxReadMs, runs };
  return [
    { what: oneRead, read: () => readLines(pool, lines), ...bar },
    { what: "usage of 30 days, by day", read: () => usage(30, "day"), ...bar },
    { what: "usage of 30 days, by model", read: () => usage(30, "model"), ...bar },
    { what: "usage of 365 days, by day", read: () => usage(365, "day"), ...bar },
    { what: "usage of 365 days, by key", read: () => usage(365, "key"), ...bar },
    { what: "statement of 30 days", read: () => statement(30), ...bar },
    { what: "statement of 365 days", read: () => statement(365), ...bar },
    { what: "overview", read: overview, ...bar },
    { what: "business of 30 days, in one", read: () => business(30, "none"), ...bar },
    { what: "business of 30 days, by day", read: () => business(30, "day"), ...bar },
    { what: "business of 30 days, by upstream", read: () => business(30, "upstream"), ...bar },
    { what: "business of 30 days, by account", read: () => business(30, "account"), ...bar },
    { what: "reconcile --day", read: () => reconcileDay(pool, nowMs), maxMs: maxReconcileMs, runs: 1 },
  ];
}

// Neither stream nor hot store are there: what is measured is how long the ledger is read.
async function reconcileDay(pool: Pool, nowMs: number): Promise<void> {
  const away = (): Promise<never> => Promise.reject(new Error("not measured"));
  const lines = await runChecks(
    {
      pool,
      nats: { current: () => undefined, [Symbol.asyncDispose]: () => Promise.resolve() },
      authQuota: { auditAccounts: away, listUnposted: away },
      metrics: createMetrics(new Registry()),
      clock: systemClock,
      log: createLog("bench", "silent"),
      signingKey: undefined,
    },
    windowOfDay(new Date(nowMs - dayMs).toISOString().slice(0, 10), nowMs),
  );
  const [sums, calls, equal] = ["R1", "R3", "R11"].map((check) => lines.find((line) => line.check === check));
  if ([sums, calls, equal].some((line) => line?.differenceNanos !== 0n || line.items.length > 0)) {
    throw new Error(`the books are wrong: ${JSON.stringify([sums, calls, equal], (_, value) => String(value))}`);
  }
}

// How many scans have touched partitions of closed days, as PostgreSQL counts them.
async function countClosedScans(pool: Pool): Promise<number> {
  // Each connection tells of its scans at the end of a transaction, but not more often than once a second.
  await setTimeout(1_100);
  await Promise.all(Array.from({ length: 10 }, () => pool.query("SELECT pg_stat_force_next_flush()")));
  const { rows } = await pool.query<{ scans: bigint }>(
    `SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::bigint AS scans FROM pg_stat_user_tables
     WHERE relname LIKE 'ledger_line_%'
       AND to_date(relname, '"ledger_line_"YYYY_MM_DD') IN (SELECT day FROM billing.closed_day)`,
  );
  return Number(rows[0]?.scans ?? 0);
}

function tableOf(figures: readonly BooksFigure[]): string {
  const one = figures.find(({ what }) => what === oneRead)?.ms ?? NaN;
  const rows = figures.map(({ what, ms, maxMs, closedScans }) => [
    what,
    ms.toFixed(1),
    (ms / one).toFixed(1),
    String(maxMs),
    ms <= maxMs ? "ok" : "MISSED",
    String(closedScans),
  ]);
  return renderTable(["what", "ms", "times the indexed read", "at most", "", "scans of closed partitions"], rows);
}
