import type { Queryable } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { businessColumns, businessRows, businessTables, sumsOfBusiness } from "./business-columns.ts";
import { firstDayOfBooked } from "./sum-state.ts";

type Long = (db: Queryable, text: string, values: unknown[]) => Promise<void>;

type BusinessState = { fromMs: number; untilMs: number; day: string | null };

async function readState(db: Queryable): Promise<BusinessState> {
  const { rows } = await db.query<{ from: bigint; until: bigint; day: string | null }>(
    `SELECT business_from_ms AS "from", business_until_ms AS until, (
       SELECT max(day) FROM billing.business_unsummed_day AS u WHERE EXISTS (
         SELECT FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'billing.ledger_line'::regclass
           AND c.relname = 'ledger_line_' || to_char(u.day, 'YYYY_MM_DD')
       )) AS day
     FROM billing.sum_state`,
  );
  const [row] = rows;
  if (!row) throw new Error("billing.sum_state has no row");
  return { fromMs: Number(row.from), untilMs: Number(row.until), day: row.day };
}

/**
 * Adds to what operators ask of all accounts what was booked since: up to `summedUntilMs`, or one day from before there
 * were these sums. False when nothing is left.
 */
export async function sumBusiness(db: Queryable, summedUntilMs: number, long: Long): Promise<boolean> {
  const { fromMs, untilMs, day } = await readState(db);
  if (untilMs === 0) {
    await begin(db, summedUntilMs);
    return true;
  }
  if (untilMs < summedUntilMs) {
    const days = `>= '${firstDayOfBooked(untilMs)}'`;
    const booked = `l.line_id >= '${firstUuidAt(untilMs)}' AND l.line_id < '${firstUuidAt(summedUntilMs)}'`;
    await long(db, addRows(`${booked} AND l.day ${days}`, `p.day ${days}`), []);
    await db.query("UPDATE billing.sum_state SET business_until_ms = $1", [summedUntilMs]);
    return true;
  }
  if (day === null) return false;
  const before = `l.day = '${day}' AND l.line_id < '${firstUuidAt(fromMs)}'`;
  await long(db, addRows(before, `p.day = '${day}'`), []);
  await db.query("DELETE FROM billing.business_unsummed_day WHERE day = $1", [day]);
  return true;
}

// Days that have left the ledger stay in the table: their figures are missing.
async function begin(db: Queryable, summedUntilMs: number): Promise<void> {
  await db.query(
    `INSERT INTO billing.business_unsummed_day (day)
     SELECT to_date(c.relname, '"ledger_line_"YYYY_MM_DD')
     FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'billing.ledger_line'::regclass
     UNION SELECT day FROM billing.closed_day`,
  );
  await db.query("UPDATE billing.sum_state SET business_from_ms = $1, business_until_ms = $1", [summedUntilMs]);
}

const added = (table: string): string =>
  businessColumns.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(", ");

function addRows(where: string, provisionalDays: string): string {
  const columns = businessColumns.join(", ");
  const inserts = businessTables.map(
    ({ table, of }) => `into_${table} AS (
      INSERT INTO billing.${table} (day, ${of}, ${columns})
      SELECT day, ${of}, ${sumsOfBusiness} FROM row GROUP BY day, ${of} ORDER BY day, ${of}
      ON CONFLICT (day, ${of}) DO UPDATE SET ${added(table)}
    )`,
  );
  return `WITH row AS MATERIALIZED (${businessRows(where, provisionalDays)}), ${inserts.join(", ")}
    INSERT INTO billing.account_start (account_id, day)
    SELECT account_id, min(day) FROM row WHERE calls > 0 GROUP BY 1 ORDER BY 1
    ON CONFLICT (account_id) DO UPDATE SET day = least(account_start.day, excluded.day)
    WHERE account_start.day > excluded.day`;
}
