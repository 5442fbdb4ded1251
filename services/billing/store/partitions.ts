import type { Queryable } from "#shared/stores/postgres.ts";

/** Days (YYYY-MM-DD) from the first up to the second, on which the ledger has a partition, in their order. */
export async function readLedgerDays(db: Queryable, fromDay: string, untilDay: string): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'billing.ledger_line'::regclass`,
  );
  // Partitions are named by billing.ensure_ledger_day: ledger_line_2027_01_31.
  const days = rows.map(({ name }) => name.slice("ledger_line_".length).replaceAll("_", "-"));
  return days.filter((day) => day >= fromDay && day < untilDay).toSorted();
}

/** A query for a day that was closed and has no partition any more, whoever took that out. */
export const isDetached = (of: string): string => `SELECT FROM billing.closed_day WHERE day = ${of} AND NOT EXISTS (
  SELECT FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'billing.ledger_line'::regclass AND c.relname = 'ledger_line_' || to_char(day, 'YYYY_MM_DD'))`;

/**
 * The first day from `firstDay` to `lastDay` that had lines and whose partition was detached since; undefined when all
 * are there. Only partitions of closed days may be detached.
 */
export async function findDetachedDay(db: Queryable, firstDay: string, lastDay: string): Promise<string | undefined> {
  const { rows } = await db.query<{ day: string }>(
    `SELECT day FROM billing.closed_day WHERE day BETWEEN $1 AND $2 AND NOT EXISTS (
       SELECT FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'billing.ledger_line'::regclass AND c.relname = 'ledger_line_' || to_char(day, 'YYYY_MM_DD')
     ) ORDER BY day LIMIT 1`,
    [firstDay, lastDay],
  );
  return rows[0]?.day;
}
