import pg from "pg";
import type { Pool } from "#shared/stores/postgres.ts";

/** The days that have a partition, as far as this process knows. */
export type LedgerDays = {
  /** Makes the partitions that are missing; returns the days that the database refuses as too far off. */
  ensure: (days: Iterable<string>) => Promise<Set<string>>;
  /** Forgets them: a ledger that is restored may not have each of them any more. */
  forget: () => void;
};

/** Whether PostgreSQL refused a line because its day has no partition (SQLSTATE 23514 without a constraint). */
export function isDayMissing(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === "23514" && error.constraint === undefined;
}

/** Days are YYYY-MM-DD. Each day is asked for once, until it is forgotten. */
export function createLedgerDays(pool: Pool): LedgerDays {
  const known = new Set<string>();
  return {
    ensure: async (days) => {
      const refused = new Set<string>();
      for (const day of new Set(days)) {
        if (known.has(day)) continue;
        const { rows } = await pool.query<{ made: boolean }>("SELECT billing.ensure_ledger_day($1::date) AS made", [
          day,
        ]);
        if (rows[0]?.made) known.add(day);
        else refused.add(day);
      }
      return refused;
    },
    forget: () => known.clear(),
  };
}
