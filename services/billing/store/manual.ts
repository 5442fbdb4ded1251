import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { createLineId } from "../line-id.ts";
import { accountColumns, type AccountRow } from "./funds.ts";
import { lineColumns, type LineRow } from "./lines.ts";
import { inTransaction, type Pool, type Queryable } from "./pool.ts";

/** A line that somebody asks for, with the id that makes it happen once. */
export type ManualLine = {
  kind: typeof LineKind.CREDIT | typeof LineKind.CORRECTION;
  /** The payment_id or correction_id. */
  reference: string;
  accountId: string;
  amountNanos: bigint;
  note: string;
  rid: string | undefined;
  /** Hash of everything above: the same reference with another one is another request. */
  contentHash: Buffer;
  /** When it is booked, and the UTC day of that, YYYY-MM-DD. */
  bookedAtMs: number;
  day: string;
};

export type ManualResult =
  | { outcome: "booked" | "booked-before"; line: LineRow; account: AccountRow }
  | { outcome: "other-content" }
  | { outcome: "refused"; reason: string };

type Registry = { table: string; id: string };

const registries: Record<ManualLine["kind"], Registry> = {
  [LineKind.CREDIT]: { table: "payment", id: "payment_id" },
  [LineKind.CORRECTION]: { table: "correction", id: "correction_id" },
};

/**
 * Books a line by hand, once per reference. `refuse` sees the account under its lock and gives the reason why the
 * line must not be booked, if there is one. The day must have its partition.
 */
export async function bookManualLine(
  pool: Pool,
  line: ManualLine,
  refuse: (account: AccountRow) => string | undefined,
): Promise<ManualResult> {
  return await inTransaction(pool, async (db) => {
    const account = await lockAccount(db, line.accountId);
    const before = await findBefore(db, line);
    if (before) return before.isSame ? await bookedBefore(db, before, account) : { outcome: "other-content" };
    const reason = refuse(account);
    if (reason) return { outcome: "refused", reason };
    const lineId = createLineId(line.bookedAtMs);
    // Waits for a request with the same reference that runs now for another account.
    if (!(await register(db, line, lineId))) return { outcome: "other-content" };
    return { outcome: "booked", line: await insertLine(db, line, lineId), account: await addToAccount(db, line) };
  });
}

async function lockAccount(db: Queryable, accountId: string): Promise<AccountRow> {
  await db.query("INSERT INTO billing.account (account_id) VALUES ($1) ON CONFLICT DO NOTHING", [accountId]);
  const { rows } = await db.query<AccountRow>(
    `SELECT ${accountColumns} FROM billing.account WHERE account_id = $1 FOR UPDATE`,
    [accountId],
  );
  return only(rows);
}

type Before = { isSame: boolean; accountId: string; lineId: string; day: string };

async function findBefore(db: Queryable, { kind, reference, contentHash }: ManualLine): Promise<Before | undefined> {
  const { table, id } = registries[kind];
  const { rows } = await db.query<Before>(
    `SELECT content_hash = $2 AS "isSame", account_id AS "accountId", line_id AS "lineId", day
     FROM billing.${table} WHERE ${id} = $1`,
    [reference, contentHash],
  );
  return rows[0];
}

async function bookedBefore(db: Queryable, before: Before, account: AccountRow): Promise<ManualResult> {
  const { rows } = await db.query<LineRow>(
    `SELECT ${lineColumns} FROM billing.ledger_line WHERE account_id = $1 AND line_id = $2 AND day = $3`,
    [before.accountId, before.lineId, before.day],
  );
  return { outcome: "booked-before", line: only(rows), account };
}

async function register(db: Queryable, line: ManualLine, lineId: string): Promise<boolean> {
  const { table, id } = registries[line.kind];
  const { rowCount } = await db.query(
    `INSERT INTO billing.${table} (${id}, content_hash, account_id, line_id, day)
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
    [line.reference, line.contentHash, line.accountId, lineId, line.day],
  );
  return rowCount === 1;
}

async function insertLine(db: Queryable, line: ManualLine, lineId: string): Promise<LineRow> {
  const { rows } = await db.query<LineRow>(
    `INSERT INTO billing.ledger_line
       (day, line_id, kind, account_id, amount_nanos, rid, reference, note, payload_hash)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING ${lineColumns}`,
    [
      line.day,
      lineId,
      line.kind,
      line.accountId,
      line.amountNanos,
      line.rid,
      line.reference,
      line.note,
      line.contentHash,
    ],
  );
  return only(rows);
}

async function addToAccount(db: Queryable, { kind, accountId, amountNanos }: ManualLine): Promise<AccountRow> {
  const credited = kind === LineKind.CREDIT ? "credited_nanos + $2" : "credited_nanos";
  const { rows } = await db.query<AccountRow>(
    `UPDATE billing.account SET balance_nanos = balance_nanos + $2, credited_nanos = ${credited}, version = version + 1
     WHERE account_id = $1
     RETURNING ${accountColumns}`,
    [accountId, amountNanos],
  );
  return only(rows);
}

function only<T>(rows: T[]): T {
  const [row] = rows;
  if (row === undefined) throw new Error("a row that must be there is missing");
  return row;
}
