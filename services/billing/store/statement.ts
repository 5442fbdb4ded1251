import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import { dayOfMs, newestDays } from "../records/check.ts";
import { coverOf, withoutHoursBefore, type Cover, type Span } from "../records/cover.ts";
import { dayMs } from "#shared/process/clock.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { plainArray } from "./arrays.ts";
import { unitColumns } from "./columns.ts";
import { findDetachedDay } from "./partitions.ts";
import { failedOf } from "./sum-columns.ts";
import { firstDayOfBooked, readWithSums, type SumState } from "./sum-state.ts";
import { asSums, type UsageSumRow } from "./usage.ts";
import { createValues } from "./values.ts";

/** Lines of an account that were booked within a time. */
export type StatementQuery = { accountId: string; span: Span };

export type KindSumRow = { kind: LineKind; lines: bigint; amountNanos: bigint };

export type StatementRows = {
  /** A day whose lines are needed and are detached from the ledger: without them the figures are wrong. */
  detachedDay: string | undefined;
  closingBalanceNanos: bigint;
  sums: KindSumRow[];
  models: UsageSumRow[];
};

/** Reads a statement's figures as of one moment, from the sums of days and hours, and lines that are in none. */
export async function readStatement(pool: Pool, { accountId, span }: StatementQuery): Promise<StatementRows> {
  return await readWithSums(pool, async (db, state) => {
    const later = { fromMs: span.untilMs, untilMs: Infinity };
    const detachedDay = await findMissingDay(db, [partsOf(span, state), partsOf(later, state)], state);
    const laterNanos = await readSumOf(db, accountId, later, state);
    const rows = await readKindsAndModels(db, accountId, span, state);
    return {
      detachedDay,
      closingBalanceNanos: (await readBalance(db, accountId)) - laterNanos,
      sums: sumByKind(rows),
      models: sumByModel(rows),
    };
  });
}

/** A time of booking by the sums that cover it; its edges are all that is not summed up. */
function partsOf({ fromMs, untilMs }: Span, { summedUntilMs, dayUntilMs, hoursFromMs }: SumState): Cover {
  const isOpen = untilMs > summedUntilMs;
  const summed = { fromMs, untilMs: Math.min(untilMs, summedUntilMs) };
  const open = isOpen ? [{ fromMs: Math.max(fromMs, summedUntilMs), untilMs }] : [];
  if (summed.fromMs >= summed.untilMs) return { days: undefined, hours: [], edges: open, whole: undefined };
  const cover = withoutHoursBefore(coverOf(summed, dayUntilMs), hoursFromMs);
  return { ...cover, edges: [...cover.edges, ...open] };
}

// Days that were closed and detached before there were sums may have any line of a time from 61 days before them on.
async function findMissingDay(
  db: Queryable,
  parts: readonly Cover[],
  { unsummed }: SumState,
): Promise<string | undefined> {
  for (const { edges, whole } of parts) {
    const lost = unsummed.find(({ day, isDetached }) => isDetached && whole && day >= firstDayOfBooked(whole.fromMs));
    if (lost) return lost.day;
    for (const { fromMs, untilMs } of edges) {
      const missing = await findDetachedDay(db, firstDayOfBooked(fromMs), lastDayOfBooked(untilMs));
      if (missing !== undefined) return missing;
    }
  }
  return undefined;
}

// A line may be of a call whose rid is a day ahead; one day for both clocks.
const lastDayOfBooked = (untilMs: number): string =>
  untilMs === Infinity ? "9999-12-31" : dayOfMs(untilMs + (newestDays + 1) * dayMs);

async function readBalance(db: Queryable, accountId: string): Promise<bigint> {
  const { rows } = await db.query<{ balance: bigint }>(
    "SELECT balance_nanos AS balance FROM billing.account WHERE account_id = $1",
    [accountId],
  );
  return rows[0]?.balance ?? 0n;
}

async function readSumOf(db: Queryable, accountId: string, span: Span, state: SumState): Promise<bigint> {
  const values = createValues();
  const rows = rowsOf({ accountId, span }, state, {
    value: values.name,
    columns: "amount_nanos",
    line: () => "amount_nanos",
  });
  const { rows: sums } = await db.query<{ amount: string }>(
    `SELECT coalesce(sum(amount_nanos), 0)::text AS amount FROM (${rows}) AS row`,
    values.all,
  );
  return BigInt(sums[0]?.amount ?? 0);
}

type Reading = { value: (given: unknown) => string; columns: string; line: (firstDay: string) => string };

// As rowsOf of usage, but by the time of the booking.
function rowsOf({ accountId, span }: StatementQuery, state: SumState, { value, columns, line }: Reading): string {
  const { days, hours, edges } = partsOf(span, state);
  const account = `account_id = ${value(accountId)}`;
  const sums = (table: string, { fromMs, untilMs }: Span): string =>
    `SELECT ${columns} FROM billing.${table}
     WHERE ${account} AND booked_at >= ${value(new Date(fromMs))} AND booked_at < ${value(new Date(untilMs))}`;
  const lines = ({ fromMs, untilMs }: Span, where: string): string =>
    `SELECT ${line(firstDayOfBooked(fromMs))} FROM billing.ledger_line AS l
     WHERE ${account} AND line_id >= ${value(firstUuidAt(fromMs))}
       ${untilMs === Infinity ? "" : `AND line_id < ${value(firstUuidAt(untilMs))}`}
       AND day BETWEEN ${value(firstDayOfBooked(fromMs))} AND ${value(lastDayOfBooked(untilMs))}${where}`;
  const rows = edges.map((edge) => lines(edge, ""));
  for (const hour of hours) rows.push(sums("hour_sum", hour));
  if (days) rows.push(sums("day_sum", days));
  const unsummed = state.unsummed.filter(({ isDetached }) => !isDetached).map(({ day }) => day);
  for (const { fromMs, untilMs } of unsummed.length > 0 ? [...(days ? [days] : []), ...hours] : []) {
    const before = { fromMs, untilMs: Math.min(untilMs, state.backfillUntilMs) };
    if (before.fromMs >= before.untilMs) continue;
    rows.push(lines(before, ` AND day = ANY (${value(plainArray(unsummed))}::date[])`));
  }
  return rows.length > 0
    ? rows.join(" UNION ALL ")
    : `SELECT ${line("1970-01-01")} FROM billing.ledger_line AS l WHERE false`;
}

type KindRow = { kind: LineKind; model: string; lines: bigint; failed: string; amount: string; units: string[] };

async function readKindsAndModels(db: Queryable, accountId: string, span: Span, state: SumState): Promise<KindRow[]> {
  const values = createValues();
  // Written out: not every statement reads both lines and sums, and a value must be used.
  const opened = `'${new Date(floorHour(span.fromMs)).toISOString()}'::timestamptz`;
  const isSeen = (firstDay: string): string => `p.line_id >= '${firstUuidAt(span.fromMs)}' AND p.day >= '${firstDay}'`;
  const units = unitColumns.join(", ");
  const rows = rowsOf({ accountId, span }, state, {
    value: values.name,
    // A call counts where its first line is; an adjustment of an earlier one does not say here how it ended.
    columns: `called_at, kind, key_id, model, lines, 
      CASE WHEN opened_at < ${opened} THEN 0 ELSE failed END AS failed, amount_nanos, ${units}`,
    line: (firstDay) => asSums(failedOf(isSeen(firstDay))),
  });
  const sums = unitColumns.map((name) => `coalesce(sum(${name}), 0)`);
  const { rows: found } = await db.query<KindRow>(
    `SELECT kind, model, sum(lines)::bigint AS lines, sum(failed)::text AS failed, sum(amount_nanos)::text AS amount,
       ARRAY[${sums.join(", ")}]::text[] AS units
     FROM (${rows}) AS row GROUP BY kind, model ORDER BY kind, model`,
    values.all,
  );
  return found;
}

const hourMs = 3_600_000;
const floorHour = (atMs: number): number => Math.floor(atMs / hourMs) * hourMs;

function sumByKind(rows: readonly KindRow[]): KindSumRow[] {
  const kinds = new Map<LineKind, KindSumRow>();
  for (const { kind, lines, amount } of rows) {
    const sum = kinds.get(kind) ?? { kind, lines: 0n, amountNanos: 0n };
    kinds.set(kind, { kind, lines: sum.lines + lines, amountNanos: sum.amountNanos + BigInt(amount) });
  }
  return [...kinds.values()];
}

function sumByModel(rows: readonly KindRow[]): UsageSumRow[] {
  const models = new Map<string, UsageSumRow>();
  for (const { kind, model, lines, failed, amount, units } of rows) {
    if (kind > 3) continue;
    const sum = models.get(model) ?? noUsage(model);
    models.set(model, {
      group: model,
      calls: sum.calls + (kind < 3 ? lines : 0n),
      failedCalls: sum.failedCalls + BigInt(failed),
      chargedNanos: sum.chargedNanos - BigInt(amount),
      units: sum.units.map((count, index) => count + BigInt(units[index] ?? 0)),
    });
  }
  return [...models.values()].toSorted((a, b) => (a.group < b.group ? -1 : 1));
}

const noUsage = (group: string): UsageSumRow => ({
  group,
  calls: 0n,
  failedCalls: 0n,
  chargedNanos: 0n,
  units: unitColumns.map(() => 0n),
});
