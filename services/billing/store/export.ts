import { lineColumns, type LineRow } from "./lines.ts";
import { inTransaction, type Pool } from "#shared/stores/postgres.ts";

export type DayQuery = { day: string; accountId: string | undefined; after: LineRow | undefined; limit: number };

/** A page of the lines of a day, in the order of account and line, read by the partition's own index. */
export async function readDayLines(pool: Pool, { day, accountId, after, limit }: DayQuery): Promise<LineRow[]> {
  const values: unknown[] = [];
  const value = (given: unknown): string => `$${values.push(given)}`;
  const conditions = [`day = ${value(day)}`];
  if (accountId !== undefined) conditions.push(`account_id = ${value(accountId)}`);
  if (after) conditions.push(`(account_id, line_id) > (${value(after.accountId)}, ${value(after.lineId)})`);
  const page = `SELECT ${lineColumns} FROM billing.ledger_line WHERE ${conditions.join(" AND ")}
    ORDER BY account_id, line_id LIMIT ${value(limit)}`;
  return await inTransaction(pool, async (db) => {
    // The partition of today may have no statistics yet: taken for a small one, all the rest of it would be sorted for
    // each page.
    await db.query("SET LOCAL enable_sort = off");
    return (await db.query<LineRow>(page, values)).rows;
  });
}
