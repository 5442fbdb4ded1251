import { dayMs } from "#shared/process/clock.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { unitColumns } from "./columns.ts";
import type { SumRow } from "./reconcile-books.ts";
import { questionOfBusiness } from "./reconcile-business.ts";
import { longestMs } from "./reconcile-query.ts";
import { daySums, groupColumns, hourSums, sumColumns } from "./sum-columns.ts";
import { readWithSums } from "./sum-state.ts";

const figures = ["lines", "failed", "amount_nanos", ...unitColumns];
const rowOf = (side: string): string => figures.map((name) => `coalesce(${side}.${name}, 0)`).join(", ");

// Rows of two tables of sums that are not the same, whichever of them lacks one.
const differences = (table: string, kept: string, summed: string): string => `
  SELECT concat_ws(' ', '${table}', account_id, to_char(booked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24'), kind, key_id,
      model) AS what,
    CASE WHEN kept.lines IS NOT NULL THEN concat_ws(' ', ${rowOf("kept")}) END AS kept,
    CASE WHEN summed.lines IS NOT NULL THEN concat_ws(' ', ${rowOf("summed")}) END AS summed,
    abs(coalesce(kept.amount_nanos, 0) - coalesce(summed.amount_nanos, 0)) AS nanos
  FROM ${kept} AS kept FULL JOIN ${summed} AS summed USING (${groupColumns})
  WHERE (${rowOf("kept")}) IS DISTINCT FROM (${rowOf("summed")})`;

/**
 * Adds up the lines of a day again and tells which sums of hours and of days are not theirs, else which of those by
 * model, upstream and account; the first of many. Reads one partition.
 */
export async function findUnequalSums(pool: Pool, day: string): Promise<SumRow[]> {
  const fromMs = Date.parse(`${day}T00:00:00Z`);
  return await readWithSums(pool, async (db, state) => {
    await db.query(`SET LOCAL statement_timeout = ${longestMs}`);
    const { summedUntilMs, backfillUntilMs, dayUntilMs, hoursFromMs, unsummed } = state;
    const mine = unsummed.find((one) => one.day === day);
    if (mine?.isDetached) return [];
    const question = {
      text: `WITH line AS (
          ${hourSums("l.day = $1 AND l.line_id >= $2 AND l.line_id < $3", "p.day = $1")}
        ), hour AS (
          SELECT ${groupColumns}, ${sumColumns} FROM billing.hour_sum WHERE called_at >= $4 AND called_at < $5
        ), whole AS (SELECT * FROM line WHERE booked_at < $6),
        total AS (${daySums("whole")}),
        day AS (
          SELECT ${groupColumns}, ${sumColumns} FROM billing.day_sum WHERE called_at >= $4 AND called_at < $5
        ), off AS (${differences("hour", "hour", "line")} AND $7 UNION ALL ${differences("day", "day", "total")})
        SELECT what, coalesce(kept, '') AS kept, coalesce(summed, '') AS summed, count(*) OVER () AS rows,
          sum(nanos) OVER ()::text AS "offNanos"
        FROM off ORDER BY nanos DESC, what LIMIT 100`,
      values: [
        day,
        firstUuidAt(mine ? backfillUntilMs : 0),
        firstUuidAt(summedUntilMs),
        new Date(fromMs),
        new Date(fromMs + dayMs),
        new Date(dayUntilMs),
        // Of a day whose first hours may be forgotten only the sums of days are compared.
        hoursFromMs === 0 || fromMs - dayMs >= hoursFromMs,
      ],
      query_timeout: longestMs + 5_000,
    };
    const unequal = (await db.query<SumRow>(question)).rows;
    const business = unequal.length === 0 ? await questionOfBusiness(db, day) : undefined;
    if (!business) return unequal;
    const longer = { ...business, query_timeout: longestMs + 5_000 };
    return (await db.query<SumRow>(longer)).rows;
  });
}
