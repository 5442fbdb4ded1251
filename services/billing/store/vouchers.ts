import pg from "pg";
import { VoucherState } from "#proto/billing/v1/billing_pb.ts";
import { bytesArray } from "./arrays.ts";
import {
  bookLocked,
  lockAccount,
  type Decision,
  type ManualContext,
  type ManualLine,
  type ManualResult,
} from "./manual.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";

/** A batch to make. `codeHashes` are in the order of the vouchers' numbers. */
export type NewBatch = {
  batchId: string;
  /** Hash of all else: the same batch_id with another one is another request. */
  contentHash: Buffer;
  amountNanos: bigint;
  codeHashes: readonly Uint8Array[];
  expiresAt: Date | undefined;
  note: string;
};

const uniqueViolation = "23505";

/** Makes a batch and its vouchers, all or nothing. */
export async function insertBatch(
  pool: Pool,
  batch: NewBatch,
): Promise<"made" | "made-before" | "other-content" | "code-known"> {
  try {
    return await inTransaction(pool, async (db) => {
      const { rowCount } = await db.query(
        `INSERT INTO billing.voucher_batch (batch_id, content_hash, amount_nanos, expires_at, note)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (batch_id) DO NOTHING`,
        [batch.batchId, batch.contentHash, batch.amountNanos, batch.expiresAt, batch.note],
      );
      if (rowCount === 0) return (await hasContent(db, batch)) ? "made-before" : "other-content";
      // In one order: two batches with the same codes cannot wait in a circle.
      await db.query(
        `INSERT INTO billing.voucher (batch_id, number, code_hash)
         SELECT $1, number, code_hash FROM unnest($2::bytea[]) WITH ORDINALITY AS new (code_hash, number)
         ORDER BY code_hash`,
        [batch.batchId, bytesArray(batch.codeHashes)],
      );
      return "made";
    });
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === uniqueViolation) return "code-known";
    throw error;
  }
}

async function hasContent(db: Queryable, { batchId, contentHash }: NewBatch): Promise<boolean> {
  const { rowCount } = await db.query("SELECT FROM billing.voucher_batch WHERE batch_id = $1 AND content_hash = $2", [
    batchId,
    contentHash,
  ]);
  return rowCount === 1;
}

export type BatchRow = {
  batchId: string;
  amountNanos: bigint;
  vouchers: number;
  redeemed: number;
  voided: number;
  expiresAt: Date | null;
  note: string;
  createdAt: Date;
};

const batchColumns = `batch_id AS "batchId", amount_nanos AS "amountNanos", expires_at AS "expiresAt", note,
  created_at AS "createdAt", counted.*`;

const counted = `SELECT count(*)::int AS vouchers,
    (count(*) FILTER (WHERE state = ${VoucherState.REDEEMED}))::int AS redeemed,
    (count(*) FILTER (WHERE state = ${VoucherState.VOID}))::int AS voided
  FROM billing.voucher AS v WHERE v.batch_id = b.batch_id`;

/** A batch as it stands; undefined when there is none of this id. */
export async function readBatch(db: Queryable, batchId: string): Promise<BatchRow | undefined> {
  const { rows } = await db.query<BatchRow>(
    `SELECT ${batchColumns} FROM billing.voucher_batch AS b CROSS JOIN LATERAL (${counted}) AS counted
     WHERE batch_id = $1`,
    [batchId],
  );
  return rows[0];
}

/** Batches, newest first: those that were made before this one, or the newest. */
export async function readBatches(
  db: Queryable,
  { before, limit }: { before: string | undefined; limit: number },
): Promise<BatchRow[]> {
  const { rows } = await db.query<BatchRow>(
    `SELECT ${batchColumns} FROM (
       SELECT * FROM billing.voucher_batch
       WHERE $1::text IS NULL
         OR batch_number < (SELECT batch_number FROM billing.voucher_batch WHERE batch_id = $1)
       ORDER BY batch_number DESC LIMIT $2
     ) AS b CROSS JOIN LATERAL (${counted}) AS counted ORDER BY batch_number DESC`,
    [before, limit],
  );
  return rows;
}

export type VoucherRow = { number: number; state: VoucherState; accountId: string | null; changedAt: Date | null };

/** The vouchers of a batch, in the order of their numbers. */
export async function readVouchers(db: Queryable, batchId: string): Promise<VoucherRow[]> {
  const { rows } = await db.query<VoucherRow>(
    `SELECT number, state, account_id AS "accountId", changed_at AS "changedAt" FROM billing.voucher
     WHERE batch_id = $1 ORDER BY number`,
    [batchId],
  );
  return rows;
}

/** Makes the open vouchers of a batch void. */
export async function voidOpenVouchers(db: Queryable, batchId: string): Promise<void> {
  await db.query(
    `WITH open AS (
       SELECT number FROM billing.voucher WHERE batch_id = $1 AND state = ${VoucherState.OPEN}
       ORDER BY number FOR UPDATE
     )
     UPDATE billing.voucher AS v SET state = ${VoucherState.VOID}, changed_at = now()
     FROM open WHERE v.batch_id = $1 AND v.number = open.number`,
    [batchId],
  );
}

/** A voucher as its redeemer finds it. Batch, number, amount and expiry never change. */
export type FoundVoucher = {
  batchId: string;
  number: number;
  amountNanos: bigint;
  expiresAt: Date | null;
  state: VoucherState;
  accountId: string | null;
};

const findVoucherText = `SELECT batch_id AS "batchId", number, amount_nanos AS "amountNanos",
    expires_at AS "expiresAt", state, account_id AS "accountId"
  FROM billing.voucher AS v JOIN billing.voucher_batch USING (batch_id) WHERE code_hash = $1`;

/** The voucher with this SHA-256 of its code; undefined when there is none. */
export async function findVoucher(db: Queryable, codeHash: Uint8Array): Promise<FoundVoucher | undefined> {
  return (await db.query<FoundVoucher>(findVoucherText, [codeHash])).rows[0];
}

/**
 * Books a voucher's credit and marks the voucher as redeemed, in one transaction. `decide` sees the account and the
 * voucher under their locks; what it throws undoes all. The account is locked first, as in every transaction. The
 * line's reference must be the voucher's own: the registry of payments refuses a second line, whatever the voucher's
 * row says.
 */
export async function redeemOnce(
  pool: Pool,
  line: ManualLine,
  codeHash: Uint8Array,
  decide: (found: ManualContext & { voucher: FoundVoucher | undefined }) => Decision,
): Promise<ManualResult> {
  return await inTransaction(pool, async (db) => {
    const account = await lockAccount(db, line.accountId);
    const [voucher] = (await db.query<FoundVoucher>(`${findVoucherText} FOR UPDATE OF v`, [codeHash])).rows;
    const result = await bookLocked(db, line, { account, decide: (found) => decide({ ...found, voucher }) });
    if (result.outcome === "booked") await markRedeemed(db, codeHash, { ...line, lineId: result.line.lineId });
    return result;
  });
}

async function markRedeemed(
  db: Queryable,
  codeHash: Uint8Array,
  { accountId, lineId, day }: ManualLine & { lineId: string },
): Promise<void> {
  const { rowCount } = await db.query(
    `UPDATE billing.voucher SET state = ${VoucherState.REDEEMED}, account_id = $2, line_id = $3, day = $4,
       changed_at = now()
     WHERE code_hash = $1 AND state = ${VoucherState.OPEN}`,
    [codeHash, accountId, lineId, day],
  );
  if (rowCount !== 1) throw new Error("a voucher that was open under its lock is not open any more");
}

/** Marks the voucher as redeemed whose credit this line is, where it is open and the line is one of a voucher. */
export async function redeemByReference(
  db: Queryable,
  { accountId, lineId, day, reference }: ManualLine & { lineId: string },
): Promise<void> {
  await db.query(
    `UPDATE billing.voucher SET state = ${VoucherState.REDEEMED}, account_id = $2, line_id = $3, day = $4,
       changed_at = now()
     WHERE 'voucher:' || batch_id || ':' || number = $1 AND batch_id = split_part($1, ':', 2)
       AND state = ${VoucherState.OPEN}`,
    [reference, accountId, lineId, day],
  );
}
