import pg from "pg";
import { dayMs } from "#shared/process/clock.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { sumBusiness } from "./make-business-sums.ts";
import { daySums, groupColumns, hourSums, sumColumns } from "./sum-columns.ts";
import { firstDayOfBooked, readSumState, withoutJit, type SumState } from "./sum-state.ts";

const hourMs = 3_600_000;
// Processes of a version that did not know the fence may still book while this one is rolled out.
const marginMs = 300_000;
// Those who book wait for whoever moves the fence, who waits for those who are booking: not for long.
const fenceWaitMs = 1_000;
// A day's lines take longer than any other statement may.
const longestMs = 600_000;

// Days are closed 62 days after they end, and their hours are compared with their lines until then.
const keptHoursMs = 100 * dayMs;

/**
 * Moves the fence to the start of this hour: when this returns, no line gets an id of an earlier one any more. The time
 * is that of the database or `nowMs`, whichever is behind. The first time it notes what the ledger holds from before.
 */
export async function moveFence(pool: Pool, nowMs: number): Promise<void> {
  const { rows: due } = await pool.query<{ fence: bigint }>(
    `SELECT fence FROM billing.sum_state, LATERAL (SELECT
       (least(extract(epoch FROM clock_timestamp()) * 1000, $1::bigint) - ${marginMs})::bigint
         / ${hourMs} * ${hourMs} AS fence
     ) AS now WHERE fence_ms < fence`,
    [nowMs],
  );
  const [next] = due;
  if (!next) return;
  await inTransaction(pool, async (db) => {
    await db.query(`SET LOCAL lock_timeout = ${fenceWaitMs}`);
    await db.query("SELECT pg_advisory_xact_lock(hashtext('billing.line_fence'))");
    const { rows } = await db.query<{ isFirst: boolean }>(
      `UPDATE billing.sum_state SET fence_ms = $1 WHERE fence_ms < $1 RETURNING summed_until_ms = 0 AS "isFirst"`,
      [next.fence],
    );
    if (rows[0]?.isFirst) await beginSums(db, next.fence);
  });
}

async function beginSums(db: Queryable, fence: bigint): Promise<void> {
  // One snapshot for both: a version that runs beside this one may close a day meanwhile.
  await db.query(
    `WITH closed AS (INSERT INTO billing.booked_sum SELECT * FROM billing.closed_sum)
     INSERT INTO billing.unsummed_day (day, is_closed, is_detached)
     SELECT day, c.day IS NOT NULL, p.day IS NULL FROM (
       SELECT to_date(c.relname, '"ledger_line_"YYYY_MM_DD') AS day
       FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'billing.ledger_line'::regclass
     ) AS p FULL JOIN billing.closed_day AS c USING (day)`,
  );
  await db.query(
    `UPDATE billing.sum_state SET summed_until_ms = $1::bigint, backfill_until_ms = $1::bigint,
       day_until_ms = $1::bigint / ${dayMs} * ${dayMs}`,
    [fence],
  );
  await forgetHours(db, Math.floor(Number(fence) / dayMs) * dayMs - keptHoursMs);
}

/** What one step of summing up did: `idle`, nothing is left to do; `busy`, another process is at it. */
export type SumStep = "hours" | "backfill" | "day" | "business" | "forget" | "idle" | "busy";

/**
 * Sums up a part of what the fence has left behind: the hours, one day from before there were sums, or a whole day of
 * hours. One transaction, which one process at a time makes; whatever becomes of it, the next begins where it was.
 */
export async function sumStep(pool: Pool): Promise<SumStep> {
  return await inTransaction(pool, async (db) => {
    // Alone first: the snapshot is that of the first statement after it.
    await db.query(`SET LOCAL statement_timeout = ${longestMs}; ${withoutJit}`);
    const { rows } = await db.query<{ isOurs: boolean }>(
      `SELECT pg_try_advisory_xact_lock(hashtext('billing.make_sums')) AS "isOurs"`,
    );
    if (!rows[0]?.isOurs) return "busy";
    const state = await readSumState(db);
    const step = await oneStep(db, state);
    return step;
  });
}

async function oneStep(db: Queryable, state: SumState & { fenceMs: number }): Promise<SumStep> {
  if (state.summedUntilMs < state.fenceMs) {
    await sumHours(db, state);
    return "hours";
  }
  const next = state.unsummed.findLast(({ isDetached }) => !isDetached);
  if (next) {
    await backfillDay(db, state, next);
    return "backfill";
  }
  if (state.dayUntilMs + dayMs <= state.summedUntilMs) {
    await sumDay(db, state.dayUntilMs);
    return "day";
  }
  if (state.summedUntilMs > 0 && (await sumBusiness(db, state.summedUntilMs, long))) return "business";
  if (state.hoursFromMs >= state.dayUntilMs - keptHoursMs) return "idle";
  await forgetHours(db, state.dayUntilMs - keptHoursMs);
  return "forget";
}

const long = async (db: Queryable, text: string, values: unknown[]): Promise<void> => {
  const question = { text, values, query_timeout: longestMs + 5_000 };
  await db.query(question);
};

const insertInto = (table: string): string => `INSERT INTO billing.${table} (${groupColumns}, ${sumColumns})`;

async function sumHours(db: Queryable, { summedUntilMs, fenceMs }: SumState & { fenceMs: number }): Promise<void> {
  const lines = hourSums("l.line_id >= $1 AND l.line_id < $2 AND l.day >= $3::date", "p.day >= $3::date");
  await long(db, `${insertInto("hour_sum")} ${lines}`, [
    firstUuidAt(summedUntilMs),
    firstUuidAt(fenceMs),
    firstDayOfBooked(summedUntilMs),
  ]);
  await db.query("UPDATE billing.sum_state SET summed_until_ms = $1", [fenceMs]);
}

// Days before `dayUntilMs` are whole already, so that what is booked on them goes to all three tables at once.
async function backfillDay(
  db: Queryable,
  { backfillUntilMs, dayUntilMs, hoursFromMs }: SumState,
  { day, isClosed }: { day: string; isClosed: boolean },
): Promise<void> {
  await long(
    db,
    `WITH hour AS MATERIALIZED (${hourSums("l.day = $1 AND l.line_id < $2", "p.day = $1")}), kept AS (
       ${insertInto("hour_sum")} SELECT * FROM hour WHERE booked_at >= $4
     ), before AS (SELECT * FROM hour WHERE booked_at < $3)
     ${isClosed ? "" : `, total AS (${addTotals("before")})`}
     ${insertInto("day_sum")} ${daySums("before")}`,
    [day, firstUuidAt(backfillUntilMs), new Date(dayUntilMs), new Date(hoursFromMs)],
  );
  await db.query("DELETE FROM billing.unsummed_day WHERE day = $1", [day]);
}

/** Forgets the sums of hours before that time, which must be the start of a day: those of days have them. */
export async function forgetHours(db: Queryable, beforeMs: number): Promise<void> {
  await long(db, "SELECT billing.forget_hours($1)", [beforeMs]);
}

async function sumDay(db: Queryable, fromMs: number): Promise<void> {
  const untilMs = fromMs + dayMs;
  await long(
    db,
    `WITH hour AS (SELECT * FROM billing.hour_sum WHERE booked_at >= $1 AND booked_at < $2),
       total AS (${addTotals("hour")})
     ${insertInto("day_sum")} ${daySums("hour")}`,
    [new Date(fromMs), new Date(untilMs)],
  );
  await db.query("UPDATE billing.sum_state SET day_until_ms = $1", [untilMs]);
}

const addTotals = (from: string): string => `
  INSERT INTO billing.booked_sum AS c (account_id, key_id, amount_nanos, credited_nanos, charged_nanos)
  SELECT account_id, key_id, sum(amount_nanos), coalesce(sum(amount_nanos) FILTER (WHERE kind = 4), 0),
    coalesce(-sum(amount_nanos) FILTER (WHERE kind <= 3), 0)
  FROM ${from} GROUP BY 1, 2
  ON CONFLICT (account_id, key_id) DO UPDATE SET amount_nanos = c.amount_nanos + excluded.amount_nanos,
    credited_nanos = c.credited_nanos + excluded.credited_nanos,
    charged_nanos = c.charged_nanos + excluded.charged_nanos`;

// A service that stops waits for the pass that is under way.
const passMs = 20_000;

/** What is done every minute: moves the fence and sums up, step by step, until nothing is left or 20 s are over. */
export async function makeSums(pool: Pool, nowMs: number): Promise<SumStep[]> {
  await moveFence(pool, nowMs).catch(ignoreBusy);
  const startedMs = performance.now();
  const steps: SumStep[] = [];
  while (performance.now() - startedMs < passMs) {
    const step = await sumStep(pool);
    if (step === "idle" || step === "busy") break;
    steps.push(step);
  }
  return steps;
}

const lockNotAvailable = "55P03";

// Somebody has been booking for long; the next pass tries again.
function ignoreBusy(error: unknown): void {
  if (!(error instanceof pg.DatabaseError && error.code === lockNotAvailable)) throw error;
}
