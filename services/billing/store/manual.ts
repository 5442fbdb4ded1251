import { dayMs } from "#shared/process/clock.ts";
import { fromBinary } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { dayOfMs } from "../records/check.ts";
import { createLineId } from "../records/line-id.ts";
import { accountColumns, type AccountRow, keyColumns, type KeyRow, readKeys } from "./funds.ts";
import { addToOutbox } from "./funds-outbox.ts";
import { lineColumns, type LineRow } from "./lines.ts";
import { findDetachedDay } from "./partitions.ts";
import { readFence } from "./sum-state.ts";
import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";

/** A line that somebody asks for, with the id that makes it happen once. */
export type ManualLine = {
  kind: typeof LineKind.CREDIT | typeof LineKind.CORRECTION | typeof LineKind.REFUND;
  /** The payment_id, correction_id or refund_id. */
  reference: string;
  accountId: string;
  /** As asked for: 0 lets `decide` choose. */
  amountNanos: bigint;
  note: string;
  rid: string | undefined;
  /** Hash of everything above: the same reference with another one is another request. */
  contentHash: Buffer;
  /** When it is booked, and the UTC day of that, YYYY-MM-DD. */
  bookedAtMs: number;
  day: string;
};

export type BookedReference = Pick<ManualLine, "kind" | "reference">;

/** What stands under the lock: the account, and of a call that is refunded what it was charged and given back. */
export type ManualContext = { account: AccountRow; charge: CallCharge | undefined };

export type CallCharge = { keyId: string; endpoint: string; chargedNanos: bigint; refundedNanos: bigint };

/** The amount to book, or why nothing is booked. */
export type Decision = { amountNanos: bigint } | { reason: string };

export type ManualResult =
  | { outcome: "booked" | "booked-before"; line: LineRow; account: AccountRow; keys: KeyRow[] }
  | { outcome: "other-content" }
  | { outcome: "refused"; reason: string };

type Registry = { table: string; id: string };

const registries: Record<ManualLine["kind"], Registry> = {
  [LineKind.CREDIT]: { table: "payment", id: "payment_id" },
  [LineKind.CORRECTION]: { table: "correction", id: "correction_id" },
  [LineKind.REFUND]: { table: "refund", id: "refund_id" },
};

/**
 * Books a line by hand, once per reference. `decide` sees the account under its lock, and the call of a refund, which
 * only changes under that lock. The day must have its partition.
 */
export async function bookManualLine(
  pool: Pool,
  asked: ManualLine,
  decide: (found: ManualContext) => Decision,
): Promise<ManualResult> {
  return await inTransaction(pool, async (db) => {
    const account = await lockAccount(db, asked.accountId);
    return await bookLocked(db, asked, { account, decide });
  });
}

/** Books a line by hand within a transaction that holds the account's lock; else as bookManualLine. */
export async function bookLocked(
  db: Queryable,
  asked: ManualLine,
  { account, decide }: { account: AccountRow; decide: (found: ManualContext) => Decision },
): Promise<ManualResult> {
  const before = await findBefore(db, asked);
  if (before) return before.isSame ? await bookedBefore(db, before, account) : { outcome: "other-content" };
  if (asked.kind === LineKind.REFUND) {
    const missing = await findDayOfRefunds(db, asked);
    if (missing !== undefined) return detachedDay(missing);
  }
  const charge = asked.kind === LineKind.REFUND ? await readCharge(db, asked) : undefined;
  const decision = decide({ account, charge });
  if ("reason" in decision) return { outcome: "refused", reason: decision.reason };
  const line = { ...asked, amountNanos: decision.amountNanos };
  const lineId = createLineId(Math.max(line.bookedAtMs, await readFence(db)));
  // Waits for a request with the same reference that runs now for another account.
  if (!(await register(db, line, lineId))) return { outcome: "other-content" };
  await addToOutbox(db, { accountId: line.accountId, lineId, day: line.day });
  return {
    outcome: "booked",
    line: await insertLine(db, { ...line, keyId: charge?.keyId }, lineId),
    account: await addToAccount(db, line),
    keys: charge ? await giveBackToKey(db, charge.keyId, line.amountNanos) : [],
  };
}

/** Locks an account for the transaction; one that the ledger has not met is made with 0. */
export async function lockAccount(db: Queryable, accountId: string): Promise<AccountRow> {
  await db.query("INSERT INTO billing.account (account_id) VALUES ($1) ON CONFLICT DO NOTHING", [accountId]);
  const { rows } = await db.query<AccountRow>(
    `SELECT ${accountColumns} FROM billing.account WHERE account_id = $1 FOR UPDATE`,
    [accountId],
  );
  return only(rows);
}

const detachedDay = (day: string): ManualResult => ({
  outcome: "refused",
  reason: `the lines of ${day} are not in the ledger any more: read them back with npm run admin -- restore-day ${day}`,
});

// What was charged, and what was given back for it since, is only known while all those days are here: of a call of
// which a refund has left, more could be given back than it was charged.
async function findDayOfRefunds(db: Queryable, { rid = "", day }: ManualLine): Promise<string | undefined> {
  return await findDetachedDay(db, firstDayOfRefunds(ridTimeMs(rid) ?? 0), day);
}

// On the day of the call or later, unless the clock of its relay was ahead, by at most a day.
const firstDayOfRefunds = (calledMs: number): string => dayOfMs(Math.max(0, calledMs - dayMs));

type EarlierBooking = { isSame: boolean; accountId: string; lineId: string; day: string };

async function findBefore(
  db: Queryable,
  { kind, reference, contentHash }: ManualLine,
): Promise<EarlierBooking | undefined> {
  const { table, id } = registries[kind];
  const { rows } = await db.query<EarlierBooking>(
    `SELECT content_hash = $2 AS "isSame", account_id AS "accountId", line_id AS "lineId", day
     FROM billing.${table} WHERE ${id} = $1`,
    [reference, contentHash],
  );
  return rows[0];
}

/** Whether a line by hand with this reference is in the ledger. */
export async function isBooked(db: Queryable, { kind, reference }: BookedReference): Promise<boolean> {
  const { table, id } = registries[kind];
  return (await db.query(`SELECT FROM billing.${table} WHERE ${id} = $1`, [reference])).rowCount === 1;
}

async function bookedBefore(db: Queryable, before: EarlierBooking, account: AccountRow): Promise<ManualResult> {
  const { rows } = await db.query<LineRow & { keyId: string | null }>(
    `SELECT ${lineColumns}, key_id AS "keyId" FROM billing.ledger_line
     WHERE account_id = $1 AND line_id = $2 AND day = $3`,
    [before.accountId, before.lineId, before.day],
  );
  // The same request again, of which only the registry tells: its line is on a day that is gone.
  if (rows.length === 0 && (await findDetachedDay(db, before.day, before.day)) !== undefined) {
    return detachedDay(before.day);
  }
  const { keyId, ...line } = only(rows);
  return { outcome: "booked-before", line, account, keys: keyId === null ? [] : await readKeys(db, [keyId]) };
}

// A call's charges are on the day of its rid.
async function readCharge(db: Queryable, { accountId, rid = "" }: ManualLine): Promise<CallCharge | undefined> {
  const calledMs = ridTimeMs(rid) ?? 0;
  const { rows } = await db.query<{ keyId: string | null; event: Buffer | null; charged: string; refunded: string }>(
    `SELECT (array_agg(event) FILTER (WHERE kind <= 3))[1] AS event, max(key_id) FILTER (WHERE kind <= 3) AS "keyId",
       coalesce(-sum(amount_nanos) FILTER (WHERE kind <= 3), 0)::text AS charged,
       coalesce(sum(amount_nanos) FILTER (WHERE kind = 6), 0)::text AS refunded
     FROM billing.ledger_line WHERE rid = $1 AND account_id = $2
       AND ((kind <= 3 AND day = $3) OR (kind = 6 AND day >= $4))`,
    [rid, accountId, dayOfMs(calledMs), firstDayOfRefunds(calledMs)],
  );
  const { keyId, event, charged, refunded } = only(rows);
  const endpoint = event ? fromBinary(UsageRecordedSchema, event).endpoint : "";
  return keyId === null
    ? undefined
    : { keyId, endpoint, chargedNanos: BigInt(charged), refundedNanos: BigInt(refunded) };
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

type LineOfKey = ManualLine & { keyId: string | undefined };

async function insertLine(db: Queryable, line: LineOfKey, lineId: string): Promise<LineRow> {
  const { rows } = await db.query<LineRow>(
    `INSERT INTO billing.ledger_line
       (day, line_id, kind, account_id, amount_nanos, rid, reference, note, payload_hash, key_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING ${lineColumns}`,
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
      line.keyId,
    ],
  );
  return only(rows);
}

// Locked after the account, as in every transaction that charges a key.
async function giveBackToKey(db: Queryable, keyId: string, amountNanos: bigint): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(
    `UPDATE billing.key_spending SET spent_nanos = spent_nanos - $2, version = version + 1, untold_version = version + 1
     WHERE key_id = $1
     RETURNING ${keyColumns}`,
    [keyId, amountNanos],
  );
  return [only(rows)];
}

async function addToAccount(db: Queryable, { kind, accountId, amountNanos }: ManualLine): Promise<AccountRow> {
  const credited = kind === LineKind.CREDIT ? "credited_nanos + $2" : "credited_nanos";
  const refunded = kind === LineKind.REFUND ? "refunded_nanos + $2" : "refunded_nanos";
  const { rows } = await db.query<AccountRow>(
    `UPDATE billing.account SET balance_nanos = balance_nanos + $2, credited_nanos = ${credited},
       refunded_nanos = ${refunded}, version = version + 1
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
