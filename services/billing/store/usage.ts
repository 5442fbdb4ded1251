import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import { dayMs } from "#shared/process/clock.ts";
import { dayOfMs } from "../records/check.ts";
import { coverOf, withoutHoursBefore, type Cover, type Span } from "../records/cover.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { plainArray } from "./arrays.ts";
import { unitColumns } from "./columns.ts";
import { findDetachedDay } from "./partitions.ts";
import { failedOf, startOfDay } from "./sum-columns.ts";
import { firstDayOfBooked, readWithSums, type SumState } from "./sum-state.ts";
import { createValues } from "./values.ts";

export type UsageGroup = "none" | "day" | "model" | "key";

export type UsageQuery = {
  accountId: string;
  /** Only calls of this key, or that named this model. */
  keyId: string | undefined;
  model: string | undefined;
  /** Calls with this time in their rids. */
  span: Span;
  groupBy: UsageGroup;
};

/** Sums of a group; `units` in the order of usageBuckets. */
export type UsageSumRow = {
  group: string;
  calls: bigint;
  /** Of the calls, those that ended otherwise than whole or by their caller's leaving. */
  failedCalls: bigint;
  chargedNanos: bigint;
  units: bigint[];
};

type SumRow = { group: string; calls: bigint; failed: string; charged: string; units: string[] };

const groupExpressions: Record<UsageGroup, string> = {
  none: "''::text",
  day: "(called_at AT TIME ZONE 'UTC')::date::text",
  model: "model",
  key: "key_id",
};

const columns = ["kind", "key_id", "model", "lines", "failed", "amount_nanos", ...unitColumns];

/** Lines as rows of sums, of one line each; `failed` is what failedOf gives. */
export const asSums = (failed: string): string =>
  `${startOfDay("l.day")} AS called_at, l.kind, coalesce(l.key_id, '') AS key_id,
   coalesce(l.model_requested, '') AS model, 1 AS lines, ${failed} AS failed, l.amount_nanos,
   ${unitColumns.map((name) => `l.${name}`).join(", ")}`;

/** `detachedDay`: a day of which lines are needed that are detached from the ledger. */
export type UsageRows = { detachedDay: string | undefined; sums: UsageSumRow[] };

/** Sums the calls of an account, in the order of groups: from sums of days and hours, and lines that are in none. */
export async function sumUsage(pool: Pool, query: UsageQuery): Promise<UsageRows> {
  return await readWithSums(pool, async (db, state) => {
    const { edges } = coverOfCalls(query.span, state);
    for (const { fromMs, untilMs } of edges) {
      const detachedDay = await findDetachedDay(db, dayOfMs(fromMs), dayOfMs(untilMs - 1));
      if (detachedDay !== undefined) return { detachedDay, sums: [] };
    }
    return { detachedDay: undefined, sums: await querySums(db, query, state) };
  });
}

async function querySums(db: Queryable, query: UsageQuery, state: SumState): Promise<UsageSumRow[]> {
  const values = createValues();
  const rows = rowsOf(query, state, values.name).join(" UNION ALL ");
  const units = unitColumns.map((name) => `coalesce(sum(${name}), 0)`);
  const { rows: sums } = await db.query<SumRow>(
    `SELECT ${groupExpressions[query.groupBy]} AS "group",
       coalesce(sum(lines) FILTER (WHERE kind < 3), 0)::bigint AS calls,
       sum(failed)::text AS failed, (-sum(amount_nanos))::text AS charged, ARRAY[${units.join(", ")}]::text[] AS units
     FROM (${rows}) AS row GROUP BY 1 ORDER BY 1`,
    values.all,
  );
  return sums.map(({ group, calls, failed, charged, units: used }) => ({
    group,
    calls,
    failedCalls: BigInt(failed),
    chargedNanos: BigInt(charged),
    units: used.map(BigInt),
  }));
}

// A relay's clock may be ahead: a call may be booked up to a day before its time.
const coverOfCalls = (span: Span, { hoursFromMs }: SumState): Cover =>
  withoutHoursBefore(coverOf(span), hoursFromMs === 0 ? 0 : hoursFromMs + dayMs);

// Sums of days lack what was booked since the last whole day, sums of hours what was booked since the last whole hour.
function rowsOf(query: UsageQuery, state: SumState, value: (given: unknown) => string): string[] {
  const { days, hours, edges, whole } = coverOfCalls(query.span, state);
  const account = `account_id = ${value(query.accountId)} AND kind <= 3`;
  const keyId = query.keyId === undefined ? "" : ` AND key_id = ${value(query.keyId)}`;
  const model = query.model === undefined ? undefined : value(query.model);
  const ofSums = `${account}${keyId}${model === undefined ? "" : ` AND model = ${model}`}`;
  const ofLines = `${account}${keyId}${model === undefined ? "" : ` AND model_requested = ${model}`}`;
  const called = ({ fromMs, untilMs }: Span): string =>
    `called_at >= ${value(new Date(fromMs))} AND called_at < ${value(new Date(untilMs))}`;
  const sums = (table: string, where: string): string =>
    `SELECT called_at, ${columns.join(", ")} FROM billing.${table} WHERE ${ofSums} AND ${where}`;
  const lines = (span: Span, where: string, firstDay = dayOfMs(span.fromMs)): string => {
    const days = `BETWEEN ${value(firstDay)} AND ${value(dayOfMs(span.untilMs - 1))}`;
    return `SELECT ${asSums(failedOf(`p.day ${days}`))} FROM billing.ledger_line AS l
      WHERE ${ofLines} AND day ${days} AND rid >= ${value(firstUuidAt(span.fromMs))}
        AND rid < ${value(firstUuidAt(span.untilMs))}${where}`;
  };
  const rows = edges.map((span) => lines(span, ""));
  for (const span of hours) rows.push(sums("hour_sum", called(span)));
  if (days) {
    rows.push(sums("day_sum", called(days)));
    rows.push(sums("hour_sum", `booked_at >= ${value(new Date(state.dayUntilMs))} AND ${called(days)}`));
  }
  if (whole) {
    const openDay = firstDayOfBooked(state.summedUntilMs);
    const firstDay = dayOfMs(whole.fromMs);
    const booked = ` AND line_id >= ${value(firstUuidAt(state.summedUntilMs))}`;
    // Days are compared as text, which is their order.
    rows.push(lines(whole, booked, firstDay > openDay ? firstDay : openDay));
    const unsummed = state.unsummed.filter(({ isDetached }) => !isDetached).map(({ day }) => day);
    if (unsummed.length > 0 && (days || hours.length > 0)) {
      const before = `line_id < ${value(firstUuidAt(state.backfillUntilMs))}`;
      const where = ` AND ${before} AND day = ANY (${value(plainArray(unsummed))}::date[])`;
      for (const span of [...(days ? [days] : []), ...hours]) rows.push(lines(span, where));
    }
  }
  return rows;
}
