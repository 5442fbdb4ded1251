import type { Pool } from "#shared/stores/postgres.ts";
import { askLong } from "./reconcile-query.ts";

// As many as a ledger has that was never closed before; the rest follows the day after.
const daysAtOnce = 100;

/** Lines that are summed up already are those up to this day. */
export const closedThrough = "(SELECT coalesce(max(day), '-infinity') FROM billing.closed_day)";

/**
 * Closes the days before `beforeDay`, on which nothing may be booked any more: their lines are summed up for good.
 * Gives the days that were closed. Each is closed once, whoever else tries.
 */
export async function closeDays(pool: Pool, beforeDay: string): Promise<string[]> {
  const days = await askLong<{ day: string }>(
    pool,
    `SELECT DISTINCT day FROM billing.ledger_line WHERE day > ${closedThrough} AND day < $1 ORDER BY day LIMIT $2`,
    [beforeDay, daysAtOnce],
  );
  for (const { day } of days) {
    await askLong(
      pool,
      `WITH closed AS (INSERT INTO billing.closed_day (day) VALUES ($1) RETURNING day)
       INSERT INTO billing.closed_sum AS c (account_id, key_id, amount_nanos, credited_nanos, charged_nanos)
       SELECT account_id, coalesce(key_id, ''), sum(amount_nanos),
         coalesce(sum(amount_nanos) FILTER (WHERE kind = 4), 0),
         coalesce(-sum(amount_nanos) FILTER (WHERE kind <= 3), 0)
       FROM billing.ledger_line WHERE day = $1 AND EXISTS (SELECT FROM closed) GROUP BY 1, 2
       ON CONFLICT (account_id, key_id) DO UPDATE SET amount_nanos = c.amount_nanos + excluded.amount_nanos,
         credited_nanos = c.credited_nanos + excluded.credited_nanos,
         charged_nanos = c.charged_nanos + excluded.charged_nanos`,
      [day],
    );
  }
  return days.map(({ day }) => day);
}
