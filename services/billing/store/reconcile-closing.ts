import type { Pool } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { askLong } from "./reconcile-query.ts";
import { readSumState } from "./sum-state.ts";

// As many as a ledger has that was never closed before; the rest follows the day after.
const daysAtOnce = 100;

/**
 * Days with lines before `beforeDay` that may be closed: nothing may be booked on them any more, and all of their lines
 * are summed up. In their order; none while days from before there were sums are not summed up.
 */
export async function findClosableDays(pool: Pool, beforeDay: string): Promise<string[]> {
  const { summedUntilMs, unsummed } = await readSumState(pool);
  if (unsummed.some(({ isClosed }) => !isClosed)) return [];
  const days = await askLong<{ day: string; isOpen: boolean }>(
    pool,
    `SELECT day, bool_or(line_id >= $3) AS "isOpen" FROM billing.ledger_line
     WHERE day > (SELECT coalesce(max(day), '-infinity') FROM billing.closed_day) AND day < $1
     GROUP BY day ORDER BY day LIMIT $2`,
    [beforeDay, daysAtOnce, firstUuidAt(summedUntilMs)],
  );
  const firstOpen = days.findIndex(({ isOpen }) => isOpen);
  return days.slice(0, firstOpen < 0 ? days.length : firstOpen).map(({ day }) => day);
}

/** Closes a day; false when another process has closed it. */
export async function closeLedgerDay(pool: Pool, day: string): Promise<boolean> {
  const { rowCount } = await pool.query("INSERT INTO billing.closed_day (day) VALUES ($1) ON CONFLICT DO NOTHING", [
    day,
  ]);
  return rowCount === 1;
}
