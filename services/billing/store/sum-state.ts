import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { dayMs } from "#shared/process/clock.ts";
import { dayOfMs, oldestDays } from "../records/check.ts";

/** A day of a ledger from before there were sums, which has none yet; see billing.unsummed_day. */
export type UnsummedDay = { day: string; isClosed: boolean; isDetached: boolean };

/** How far lines are summed up, by the time in their ids, in milliseconds since 1970; see billing.sum_state. */
export type SumState = {
  summedUntilMs: number;
  backfillUntilMs: number;
  dayUntilMs: number;
  hoursFromMs: number;
  unsummed: UnsummedDay[];
};

type StateRow = { fence: bigint; summed: bigint; backfill: bigint; day: bigint; hours: bigint };

/** Reads it, in the snapshot in which the sums are read. */
export async function readSumState(db: Queryable): Promise<SumState & { fenceMs: number }> {
  const { rows } = await db.query<StateRow>(
    `SELECT fence_ms AS fence, summed_until_ms AS summed, backfill_until_ms AS backfill, day_until_ms AS day,
       hours_from_ms AS hours
     FROM billing.sum_state`,
  );
  const [row] = rows;
  if (!row) throw new Error("billing.sum_state has no row");
  const { rows: unsummed } = await db.query<UnsummedDay>(
    `SELECT day, is_closed AS "isClosed", is_detached AS "isDetached" FROM billing.unsummed_day ORDER BY day`,
  );
  return {
    fenceMs: Number(row.fence),
    summedUntilMs: Number(row.summed),
    backfillUntilMs: Number(row.backfill),
    dayUntilMs: Number(row.day),
    hoursFromMs: Number(row.hours),
    unsummed,
  };
}

/**
 * How long ago the sums of hours or days end, by the database's clock: a process whose clock is late must not find
 * itself in time. Today needs no sum of a day yet. And how many days are still to be backfilled.
 */
export async function readSumsLag(db: Queryable): Promise<{ behindSeconds: number; unsummedDays: number }> {
  const { rows } = await db.query<{ behindSeconds: number; unsummedDays: number }>(
    `SELECT extract(epoch FROM clock_timestamp())::float8
         - least(summed_until_ms, day_until_ms + ${dayMs})::float8 / 1000 AS "behindSeconds",
       (SELECT count(*)::int FROM billing.unsummed_day WHERE NOT is_detached) AS "unsummedDays"
     FROM billing.sum_state`,
  );
  const [row] = rows;
  if (!row) throw new Error("billing.sum_state has no row");
  return row;
}

/** The first day on which there can be lines that were booked at this time or later; one day for both clocks. */
export const firstDayOfBooked = (bookedMs: number): string => dayOfMs(Math.max(0, bookedMs - (oldestDays + 1) * dayMs));

/** Compiling what sums twenty columns takes PostgreSQL 0.3 s, several times as long as summing up an hour or a year. */
export const withoutJit = "SET LOCAL jit = off";

/** Reads sums and the lines that are not in them as of one moment. */
export async function readWithSums<T>(pool: Pool, work: (db: Queryable, state: SumState) => Promise<T>): Promise<T> {
  return await inTransaction(pool, async (db) => {
    await db.query(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; ${withoutJit}`);
    return await work(db, await readSumState(db));
  });
}

/** The time before which no line of this transaction may have its id; asked before the lines are decided. */
export async function readFence(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ fence: bigint }>("SELECT billing.sums_fence() AS fence");
  return Number(rows[0]?.fence ?? 0);
}
