import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";
import { lockCount } from "./lock-count.ts";

/** A payment that somebody began; the states are those of the migration's comment. */
export type TopUp = {
  topUpId: string;
  accountId: string;
  personId: string;
  provider: string;
  amountNanos: bigint;
  state: "begun" | "paid" | "expired" | "unbooked";
  /** The provider's id of it; null until the provider has told it. */
  reference: string | null;
  paymentId: string | null;
  createdAt: Date;
  /** Whether what it is paid with may be charged later. */
  savesCard: boolean;
  /** Whether nobody asked for it: the saved card is charged, which these two are. */
  isAutomatic: boolean;
  customer: string | null;
  method: string | null;
  /** Why nothing came of it, for people; often empty. */
  problem: string;
};

const columns = `top_up_id AS "topUpId", account_id AS "accountId", person_id AS "personId", provider,
  amount_nanos AS "amountNanos", state, provider_reference AS "reference", payment_id AS "paymentId",
  created_at AS "createdAt", saves_card AS "savesCard", is_automatic AS "isAutomatic", customer, method, problem`;

/** An account's payments that were begun in the last hour and not paid; more are refused. */
const maxBegun = 20;

/** Adds one in the state begun and tells its id; undefined when the account has too many begun in the last hour. */
export async function insertTopUp(
  db: Queryable,
  topUp: Pick<TopUp, "accountId" | "personId" | "provider" | "amountNanos" | "savesCard">,
): Promise<string | undefined> {
  const { accountId, personId, provider, amountNanos, savesCard } = topUp;
  await lockCount(db, "top-up", accountId);
  const { rows } = await db.query<{ topUpId: string }>(
    `INSERT INTO console.top_up (top_up_id, account_id, person_id, provider, amount_nanos, saves_card)
     SELECT $1, $2, $3, $4, $5, $6
     WHERE (SELECT count(*) FROM console.top_up WHERE account_id = $2 AND state <> 'paid'
            AND NOT is_automatic AND created_at > now() - interval '1 hour') < ${maxBegun}
     RETURNING top_up_id AS "topUpId"`,
    [randomUUID(), accountId, personId, provider, amountNanos, savesCard],
  );
  return rows[0]?.topUpId;
}

export async function findTopUp(db: Queryable, topUpId: string): Promise<TopUp | undefined> {
  const statement = `SELECT ${columns} FROM console.top_up WHERE top_up_id = $1`;
  return (await db.query<TopUp>(statement, [topUpId])).rows[0];
}

/** The one that billing knows, or was asked to book, under this payment id. */
export async function findByPayment(db: Queryable, paymentId: string): Promise<TopUp | undefined> {
  const statement = `SELECT ${columns} FROM console.top_up WHERE payment_id = $1`;
  return (await db.query<TopUp>(statement, [paymentId])).rows[0];
}

/** The latest charges of an account's saved card. */
export async function listCharges(db: Queryable, accountId: string, limit: number): Promise<TopUp[]> {
  const statement = `SELECT ${columns} FROM console.top_up WHERE account_id = $1 AND is_automatic
    ORDER BY created_at DESC LIMIT $2`;
  return (await db.query<TopUp>(statement, [accountId, limit])).rows;
}

/** The latest of an account. */
export async function listTopUps(db: Queryable, accountId: string, limit: number): Promise<TopUp[]> {
  const statement = `SELECT ${columns} FROM console.top_up WHERE account_id = $1 ORDER BY created_at DESC LIMIT $2`;
  return (await db.query<TopUp>(statement, [accountId, limit])).rows;
}

/** Notes under which id the provider knows it. */
export async function setReference(db: Queryable, topUpId: string, reference: string): Promise<void> {
  const statement = `UPDATE console.top_up SET provider_reference = $2
    WHERE top_up_id = $1 AND provider_reference IS NULL`;
  await db.query(statement, [topUpId, reference]);
}

/** Marks one whose money is in the ledger; whether it was this call that did, of any number at once. */
export async function markPaid(db: Queryable, topUpId: string, paymentId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE console.top_up SET state = 'paid', payment_id = $2, paid_at = now()
     WHERE top_up_id = $1 AND state <> 'paid'`,
    [topUpId, paymentId],
  );
  return rowCount === 1;
}

/** Marks one of which nothing comes; whether it was this call that did. */
export async function markExpired(db: Queryable, topUpId: string): Promise<boolean> {
  const statement = `UPDATE console.top_up SET state = 'expired' WHERE top_up_id = $1 AND state = 'begun'`;
  return (await db.query(statement, [topUpId])).rowCount === 1;
}

/** Marks one that the provider has refused, and why; whether it was this call that did. */
export async function markDeclined(db: Queryable, topUpId: string, problem: string): Promise<boolean> {
  const statement = `UPDATE console.top_up SET state = 'expired', problem = $2
    WHERE top_up_id = $1 AND state = 'begun'`;
  return (await db.query(statement, [topUpId, problem])).rowCount === 1;
}

/** Marks one whose money came in and could not be booked; whether it was this call that did. */
export async function markUnbooked(db: Queryable, topUpId: string, paymentId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE console.top_up SET state = 'unbooked', payment_id = $2
     WHERE top_up_id = $1 AND state IN ('begun', 'expired')`,
    [topUpId, paymentId === "" ? null : paymentId],
  );
  return rowCount === 1;
}

/**
 * Takes begun ones at which nobody has looked for a while, each for one replica: the first look is after five minutes,
 * later ones come ever more rarely, and after 30 days there is none, for the slowest ways to pay take 14.
 */
export async function takePending(db: Queryable, limit: number): Promise<TopUp[]> {
  const { rows } = await db.query<TopUp>(
    `UPDATE console.top_up SET looked_at = now() WHERE top_up_id IN (
       SELECT top_up_id FROM console.top_up
       WHERE state = 'begun' AND NOT is_automatic AND created_at > now() - interval '30 days'
         AND looked_at < now() - greatest(interval '5 minutes', (now() - created_at) / 4)
       ORDER BY looked_at LIMIT $1 FOR UPDATE SKIP LOCKED)
     RETURNING ${columns}`,
    [limit],
  );
  return rows;
}

/** Takes automatic ones that are begun and of which nothing was heard for a minute, each for one replica. */
export async function takePendingCharges(db: Queryable, limit: number): Promise<TopUp[]> {
  const { rows } = await db.query<TopUp>(
    `UPDATE console.top_up SET looked_at = now() WHERE top_up_id IN (
       SELECT top_up_id FROM console.top_up
       WHERE state = 'begun' AND is_automatic AND looked_at < now() - interval '1 minute'
       ORDER BY looked_at LIMIT $1 FOR UPDATE SKIP LOCKED)
     RETURNING ${columns}`,
    [limit],
  );
  return rows;
}
