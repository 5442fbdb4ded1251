import type { Queryable } from "#shared/stores/postgres.ts";
import type { TopUp } from "./top-ups.ts";

/**
 * Money of a payment that goes back to whoever paid, or comes again: a refund that failed, a dispute that ended in our
 * favour. `amountNanos` is what was refunded of a charge in all, or the amount of this refund or dispute.
 */
export type Reversal = {
  /** The message; the same one may come again. */
  eventId: string;
  what: "refunded" | "refund-failed" | "disputed" | "dispute-ended";
  /** The charge, refund or dispute. */
  objectId: string;
  amountNanos: bigint;
  /** When it happened, in seconds since 1970. */
  createdS: number;
};

/** A correction of an account that follows from reversals of a payment; negative: money is taken. */
export type Correction = { paymentId: string; number: number; amountNanos: bigint };

/** Notes what the provider has said; the same message once. */
export async function insertReversal(db: Queryable, paymentId: string, reversal: Reversal): Promise<boolean> {
  const { eventId, what, objectId, amountNanos, createdS } = reversal;
  const { rowCount } = await db.query(
    `INSERT INTO console.reversal (event_id, payment_id, what, object_id, amount_nanos, created_s)
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
    [eventId, paymentId, what, objectId, amountNanos, createdS],
  );
  return rowCount === 1;
}

export async function listReversals(db: Queryable, paymentId: string): Promise<Reversal[]> {
  const { rows } = await db.query<Reversal>(
    `SELECT event_id AS "eventId", what, object_id AS "objectId", amount_nanos AS "amountNanos",
       created_s::float8 AS "createdS"
     FROM console.reversal WHERE payment_id = $1`,
    [paymentId],
  );
  return rows;
}

/** The account and amount of a payment that is booked, locked until the transaction ends. */
export async function lockPaid(
  db: Queryable,
  paymentId: string,
): Promise<Pick<TopUp, "topUpId" | "accountId" | "amountNanos"> | undefined> {
  const { rows } = await db.query<Pick<TopUp, "topUpId" | "accountId" | "amountNanos">>(
    `SELECT top_up_id AS "topUpId", account_id AS "accountId", amount_nanos AS "amountNanos"
     FROM console.top_up WHERE payment_id = $1 AND state = 'paid' FOR UPDATE`,
    [paymentId],
  );
  return rows[0];
}

export async function listCorrections(
  db: Queryable,
  paymentId: string,
): Promise<(Correction & { isBooked: boolean })[]> {
  const { rows } = await db.query<Correction & { isBooked: boolean }>(
    `SELECT payment_id AS "paymentId", number, amount_nanos AS "amountNanos", booked_at IS NOT NULL AS "isBooked"
     FROM console.reversal_correction WHERE payment_id = $1 ORDER BY number`,
    [paymentId],
  );
  return rows;
}

export async function insertCorrection(db: Queryable, correction: Correction): Promise<void> {
  const { paymentId, number, amountNanos } = correction;
  await db.query("INSERT INTO console.reversal_correction (payment_id, number, amount_nanos) VALUES ($1, $2, $3)", [
    paymentId,
    number,
    amountNanos,
  ]);
}

/** Marks one that billing has booked; whether it was this call that did. */
export async function markCorrected(db: Queryable, { paymentId, number }: Correction): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE console.reversal_correction SET booked_at = now()
     WHERE payment_id = $1 AND number = $2 AND booked_at IS NULL`,
    [paymentId, number],
  );
  return rowCount === 1;
}

/**
 * Payments with corrections that are not known to be booked after a minute, and those of the last day that were booked
 * after a reversal of them was known.
 */
export async function listUncorrected(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ paymentId: string }>(
    `SELECT payment_id AS "paymentId" FROM console.reversal_correction
     WHERE booked_at IS NULL AND created_at < now() - interval '1 minute'
     UNION
     SELECT r.payment_id FROM console.reversal AS r JOIN console.top_up AS t ON t.payment_id = r.payment_id
     WHERE t.paid_at > greatest(r.received_at, now() - interval '1 day')
     LIMIT $1`,
    [limit],
  );
  return rows.map(({ paymentId }) => paymentId);
}
