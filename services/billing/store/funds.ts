import { numberArray, plainArray } from "./arrays.ts";
import type { Queryable } from "#shared/stores/postgres.ts";

export type AccountRow = {
  accountId: string;
  balanceNanos: bigint;
  creditedNanos: bigint;
  chargedNanos: bigint;
  /** Charged, less what was refunded. */
  spentNanos: bigint;
  version: bigint;
};

/** How new a balance is. */
export type AccountVersion = Pick<AccountRow, "accountId" | "version">;

export type KeyRow = { keyId: string; accountId: string; spentNanos: bigint; version: bigint };

/** What an AccountRow is read from. */
export const accountColumns = `account_id AS "accountId", balance_nanos AS "balanceNanos",
  credited_nanos AS "creditedNanos", charged_nanos AS "chargedNanos",
  charged_nanos - refunded_nanos AS "spentNanos", version`;

/** What a KeyRow is read from. */
export const keyColumns = `key_id AS "keyId", account_id AS "accountId", spent_nanos AS "spentNanos", version`;

/** Accounts that the ledger has met; ids must have been checked. */
export async function readAccounts(db: Queryable, accountIds: readonly string[]): Promise<AccountRow[]> {
  if (accountIds.length === 0) return [];
  const { rows } = await db.query<AccountRow>(
    `SELECT ${accountColumns} FROM billing.account WHERE account_id = ANY ($1::text[])`,
    [plainArray(accountIds)],
  );
  return rows;
}

/** An account's balance, as ListLowBalances tells it. */
export type BalanceRow = Pick<AccountRow, "accountId" | "balanceNanos" | "version">;

/**
 * The accounts with the lowest balances below this, and how many there are in all. Read from the whole table: an index
 * on the balance would be written with every charge, and take from those updates that they stay on their page (HOT).
 */
export async function readLowBalances(
  db: Queryable,
  { belowNanos, limit }: { belowNanos: bigint; limit: number },
): Promise<{ accounts: BalanceRow[]; total: bigint }> {
  const { rows } = await db.query<BalanceRow & { total: bigint }>(
    `SELECT account_id AS "accountId", balance_nanos AS "balanceNanos", version,
       (SELECT count(*) FROM billing.account WHERE balance_nanos < $1) AS total
     FROM billing.account WHERE balance_nanos < $1 ORDER BY balance_nanos, account_id LIMIT $2`,
    [belowNanos, limit],
  );
  return { accounts: rows.map(({ total: _, ...account }) => account), total: rows[0]?.total ?? 0n };
}

/** Keys that have been charged; ids must have been checked. */
export async function readKeys(db: Queryable, keyIds: readonly string[]): Promise<KeyRow[]> {
  if (keyIds.length === 0) return [];
  const { rows } = await db.query<KeyRow>(
    `SELECT ${keyColumns} FROM billing.key_spending WHERE key_id = ANY ($1::text[])`,
    [plainArray(keyIds)],
  );
  return rows;
}

/** A key's spending, and when a charge of it was booked last; null: never, or before that was written down. */
export type KeyFundsRow = KeyRow & { chargedAt: Date | null };

/** Keys that have been charged, as GetFunds tells them; ids must have been checked. */
export async function readKeyFunds(db: Queryable, keyIds: readonly string[]): Promise<KeyFundsRow[]> {
  if (keyIds.length === 0) return [];
  const { rows } = await db.query<KeyFundsRow>(
    `SELECT ${keyColumns}, charged_at AS "chargedAt" FROM billing.key_spending WHERE key_id = ANY ($1::text[])`,
    [plainArray(keyIds)],
  );
  return rows;
}

/** Keys whose last change is marked as not pushed to auth-quota; at most `limit`. */
export async function readUnpushedKeys(db: Queryable, limit: number): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(
    `SELECT ${keyColumns} FROM billing.key_spending WHERE untold_version IS NOT NULL LIMIT $1`,
    [limit],
  );
  return rows;
}

/** Marks keys as not pushed to auth-quota. */
export async function markKeysUnpushed(db: Queryable, keyIds: readonly string[]): Promise<void> {
  if (keyIds.length === 0) return;
  await db.query(
    `WITH locked AS (
       SELECT key_id FROM billing.key_spending WHERE key_id = ANY ($1::text[]) ORDER BY key_id FOR UPDATE
     )
     UPDATE billing.key_spending AS k SET untold_version = version FROM locked WHERE k.key_id = locked.key_id`,
    [plainArray(keyIds)],
  );
}

/** Marks keys as pushed, up to these versions. */
export async function markKeysPushed(db: Queryable, keys: readonly KeyRow[]): Promise<void> {
  if (keys.length === 0) return;
  const sorted = keys.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1));
  await db.query(
    `WITH told AS (
       SELECT k.key_id FROM unnest($1::text[], $2::bigint[]) AS new (key_id, version)
       JOIN billing.key_spending AS k USING (key_id)
       WHERE k.untold_version <= new.version ORDER BY k.key_id FOR UPDATE OF k
     )
     UPDATE billing.key_spending AS k SET untold_version = NULL FROM told WHERE k.key_id = told.key_id`,
    [plainArray(sorted.map(({ keyId }) => keyId)), numberArray(sorted.map(({ version }) => version))],
  );
}

/** Accounts whose latest balance is not marked as pushed to auth-quota; at most `limit`. */
export async function readUnpushedAccounts(db: Queryable, limit: number): Promise<AccountRow[]> {
  const { rows } = await db.query<AccountRow>(
    `SELECT ${accountColumns} FROM billing.account WHERE version > pushed_version LIMIT $1`,
    [limit],
  );
  return rows;
}

/** Stores the versions pushed to auth-quota. */
export async function markPushed(db: Queryable, versions: ReadonlyMap<string, bigint>): Promise<void> {
  if (versions.size === 0) return;
  const entries = [...versions].toSorted(([a], [b]) => (a < b ? -1 : 1));
  await db.query(
    `WITH told AS (
       SELECT a.account_id, new.version
       FROM unnest($1::text[], $2::bigint[]) AS new (account_id, version)
       JOIN billing.account AS a USING (account_id)
       WHERE a.pushed_version < new.version ORDER BY a.account_id FOR UPDATE OF a
     )
     UPDATE billing.account AS a SET pushed_version = greatest(a.pushed_version, told.version)
     FROM told WHERE a.account_id = told.account_id`,
    [plainArray(entries.map(([id]) => id)), numberArray(entries.map(([, version]) => version))],
  );
}

export type BookedAccount = { accountId: string; balanceNanos: bigint };

/** Accounts behind one that something was ever booked for, in the order of their ids. */
export async function readBookedAccounts(db: Queryable, after: string, limit: number): Promise<BookedAccount[]> {
  const { rows } = await db.query<BookedAccount>(
    `SELECT account_id AS "accountId", balance_nanos AS "balanceNanos" FROM billing.account
     WHERE account_id > $1 AND (balance_nanos, credited_nanos, charged_nanos) <> (0, 0, 0)
     ORDER BY account_id LIMIT $2`,
    [after, limit],
  );
  return rows;
}

export type BookedKey = { keyId: string; accountId: string; spentNanos: bigint; chargedAt: Date };

/** Keys behind one that were charged within 400 days, after which auth-quota forgets deleted ones, in that order. */
export async function readBookedKeys(db: Queryable, after: string, limit: number): Promise<BookedKey[]> {
  const { rows } = await db.query<BookedKey>(
    `SELECT key_id AS "keyId", account_id AS "accountId", spent_nanos AS "spentNanos", charged_at AS "chargedAt"
     FROM billing.key_spending WHERE key_id > $1 AND charged_at > now() - interval '400 days' ORDER BY key_id LIMIT $2`,
    [after, limit],
  );
  return rows;
}
