import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";

/** A card that may be charged without its owner; the provider's ids and how people know it. */
export type SavedCard = { customer: string; method: string; label: string };

/** When the saved card of an account is charged. */
export type AutoTopUp = {
  accountId: string;
  isOn: boolean;
  thresholdNanos: bigint;
  amountNanos: bigint;
  /** In a calendar month (UTC). */
  monthlyCapNanos: bigint;
  /** Why it was switched off by itself; empty: it was not. */
  offReason: string;
  setBy: string;
};

const columns = `account_id AS "accountId", is_on AS "isOn", threshold_nanos AS "thresholdNanos",
  amount_nanos AS "amountNanos", monthly_cap_nanos AS "monthlyCapNanos", off_reason AS "offReason", set_by AS "setBy"`;

export async function findSavedCard(db: Queryable, accountId: string): Promise<SavedCard | undefined> {
  const statement = "SELECT customer, method, label FROM console.saved_card WHERE account_id = $1";
  return (await db.query<SavedCard>(statement, [accountId])).rows[0];
}

type CardOwner = { accountId: string; provider: string; personId: string };

/** Keeps a card in the place of the one before. */
export async function keepCard(db: Queryable, owner: CardOwner, card: SavedCard): Promise<void> {
  await db.query(
    `INSERT INTO console.saved_card (account_id, provider, customer, method, label, saved_by)
     VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT (account_id) DO UPDATE SET provider = $2, customer = $3, method = $4, label = $5, saved_by = $6,
       saved_at = now()`,
    [owner.accountId, owner.provider, card.customer, card.method, card.label, owner.personId],
  );
}

export async function deleteCard(db: Queryable, accountId: string): Promise<void> {
  await db.query("DELETE FROM console.saved_card WHERE account_id = $1", [accountId]);
}

export async function findAutoTopUp(db: Queryable, accountId: string): Promise<AutoTopUp | undefined> {
  const statement = `SELECT ${columns} FROM console.auto_top_up WHERE account_id = $1`;
  return (await db.query<AutoTopUp>(statement, [accountId])).rows[0];
}

/** The same, which nobody else changes or charges by until the transaction ends. */
export async function lockAutoTopUp(db: Queryable, accountId: string): Promise<AutoTopUp | undefined> {
  const statement = `SELECT ${columns} FROM console.auto_top_up WHERE account_id = $1 FOR UPDATE`;
  return (await db.query<AutoTopUp>(statement, [accountId])).rows[0];
}

/** Sets it; it is compared with at once. */
export async function setAutoTopUp(db: Queryable, rule: AutoTopUp): Promise<void> {
  await db.query(
    `INSERT INTO console.auto_top_up
       (account_id, is_on, threshold_nanos, amount_nanos, monthly_cap_nanos, off_reason, set_by)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (account_id) DO UPDATE SET is_on = $2, threshold_nanos = $3, amount_nanos = $4,
       monthly_cap_nanos = $5, off_reason = $6, set_by = $7, checked_at = '-infinity'`,
    [
      rule.accountId,
      rule.isOn,
      rule.thresholdNanos,
      rule.amountNanos,
      rule.monthlyCapNanos,
      rule.offReason,
      rule.setBy,
    ],
  );
}

/** Switches it off; why is for people, and empty where a person did. */
export async function switchOff(db: Queryable, accountId: string, reason: string): Promise<void> {
  const statement = "UPDATE console.auto_top_up SET is_on = false, off_reason = $2 WHERE account_id = $1 AND is_on";
  await db.query(statement, [accountId, reason]);
}

/** Takes those that are on and with which no replica has compared for ten seconds. */
export async function takeAutoTopUps(db: Queryable, limit: number): Promise<AutoTopUp[]> {
  const { rows } = await db.query<AutoTopUp>(
    `UPDATE console.auto_top_up SET checked_at = now() WHERE account_id IN (
       SELECT account_id FROM console.auto_top_up WHERE is_on AND checked_at < now() - interval '10 seconds'
       ORDER BY checked_at LIMIT $1 FOR UPDATE SKIP LOCKED)
     RETURNING ${columns}`,
    [limit],
  );
  return rows;
}

/** What was charged of the saved card in this calendar month, or may have been. */
export async function chargedThisMonth(db: Queryable, accountId: string): Promise<bigint> {
  const { rows } = await db.query<{ charged: bigint }>(
    `SELECT coalesce(sum(amount_nanos), 0)::bigint AS charged FROM console.top_up
     WHERE account_id = $1 AND is_automatic AND state <> 'expired' AND created_at >= date_trunc('month', now(), 'UTC')`,
    [accountId],
  );
  return rows[0]?.charged ?? 0n;
}

/** Whether a charge is under way, or waits for a person: then there is no other. */
export async function hasUndecided(db: Queryable, accountId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `SELECT FROM console.top_up WHERE account_id = $1 AND is_automatic AND state IN ('begun', 'unbooked')`,
    [accountId],
  );
  return rowCount !== 0;
}

type NewCharge = { accountId: string; personId: string; provider: string; amountNanos: bigint; card: SavedCard };

/** Adds an automatic one in the state begun and tells its id. */
export async function insertCharge(db: Queryable, charge: NewCharge): Promise<string> {
  const { accountId, personId, provider, amountNanos, card } = charge;
  const topUpId = randomUUID();
  await db.query(
    `INSERT INTO console.top_up
       (top_up_id, account_id, person_id, provider, amount_nanos, is_automatic, customer, method)
     VALUES ($1, $2, $3, $4, $5, true, $6, $7)`,
    [topUpId, accountId, personId, provider, amountNanos, card.customer, card.method],
  );
  return topUpId;
}
