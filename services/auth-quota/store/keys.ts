import {
  budgetColumns,
  budgetValues,
  changeBudget,
  fromRawBudget,
  periodStart,
  type Budget,
  type BudgetChange,
  type RawBudget,
} from "./budgets.ts";
import type { Database } from "./postgres.ts";

/** A row of auth_quota.key; the hash is in `row` only. */
export type KeyRow = Budget & {
  keyId: string;
  accountId: string;
  secretPrefix: string;
  name: string;
  status: "active" | "stopped" | "deleted";
  expiresAt: Date | null;
  models: string[];
  /** Calls under way; 0: as many as its account may have. */
  maxConcurrent: number;
  /** Calls per minute; 0: as many as its account may begin. */
  requestsPerMinute: number;
  /** Addresses and networks from which it works; empty: all. */
  addresses: string[];
  /** What its owner sorts it by. */
  tags: string[];
  version: bigint;
  createdAt: Date;
  updatedAt: Date;
  /** All of it in JSON. */
  row: string;
};

export type NewKey = Pick<
  KeyRow,
  | "keyId"
  | "accountId"
  | "secretPrefix"
  | "name"
  | "expiresAt"
  | "limitNanos"
  | "budgetPeriod"
  | "models"
  | "maxConcurrent"
  | "requestsPerMinute"
  | "addresses"
  | "tags"
> & {
  keyHash: Buffer;
};

/** What to change; undefined leaves a field as it is. */
export type KeyChange = BudgetChange & {
  name: string | undefined;
  status: "active" | "stopped" | undefined;
  expiresAt: Date | null | undefined;
  models: string[] | undefined;
  maxConcurrent: number | undefined;
  requestsPerMinute: number | undefined;
  addresses: string[] | undefined;
  tags: string[] | undefined;
};

/** What a secret stands for; never changes. */
export type Identity = { keyId: string; accountId: string };

type RawRow = Omit<KeyRow, "version" | keyof RawBudget> & RawBudget & { version: string };

const columns = `key_id as "keyId", account_id as "accountId", secret_prefix as "secretPrefix", name, status,
  expires_at as "expiresAt", ${budgetColumns}, models,
  max_concurrent as "maxConcurrent", requests_per_minute as "requestsPerMinute", addresses, tags, version,
  created_at as "createdAt", updated_at as "updatedAt", to_jsonb(key)::text as "row"`;

const fromRaw = (raw: RawRow): KeyRow => ({
  ...raw,
  ...fromRawBudget(raw),
  version: BigInt(raw.version),
});

/**
 * Adds a key; undefined when its account does not exist, "full" when it has the most that it may. The first period of a
 * budget has begun already.
 */
export async function insertKey(database: Database, key: NewKey, most: number): Promise<KeyRow | "full" | undefined> {
  const statement = `insert into auth_quota.key
    (key_id, account_id, key_hash, secret_prefix, name, expires_at, limit_nanos, models, max_concurrent,
      budget_nanos, budget_period, budget_from, requests_per_minute, addresses, tags)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9,
      case when $10::text is not null then $7::bigint end, $10, coalesce(${periodStart("$10::text")}, '-infinity'),
      $11, $12, $13)
    returning ${columns}`;
  const { keyId, accountId, keyHash, secretPrefix, name, expiresAt, limitNanos, models, maxConcurrent } = key;
  const { budgetPeriod, requestsPerMinute, addresses, tags } = key;
  const settings = [name, expiresAt, limitNanos, models, maxConcurrent, budgetPeriod, requestsPerMinute, addresses];
  const values = [keyId, accountId, keyHash, secretPrefix, ...settings, tags];
  return database.transaction(async (query) => {
    // Keys of the same account are added one after the other, or many at once would all count the same.
    const lock = "select from auth_quota.account where account_id = $1 for no key update";
    if ((await query(lock, [accountId])).length === 0) return undefined;
    const count = "select from auth_quota.key where account_id = $1 and status <> 'deleted' limit $2";
    if ((await query(count, [accountId, most])).length >= most) return "full";
    return (await query<RawRow>(statement, values)).map(fromRaw)[0];
  });
}

/**
 * Changes a key that is not deleted and raises its version; undefined when there is none. A budget of another period
 * than before has not begun: see renewBudgets.
 */
export async function updateKey(database: Database, keyId: string, change: KeyChange): Promise<KeyRow | undefined> {
  const statement = `update auth_quota.key
    set name = coalesce($2, name), status = coalesce($3, status),
      expires_at = case when $4 then $5 else expires_at end, ${changeBudget("$6", "$7", "$10")},
      models = coalesce($8, models), max_concurrent = coalesce($9, max_concurrent),
      requests_per_minute = coalesce($11, requests_per_minute), addresses = coalesce($12, addresses),
      tags = coalesce($13, tags),
      version = version + 1, updated_at = now()
    where key_id = $1 and status <> 'deleted' returning ${columns}`;
  const { name, status, expiresAt, models, maxConcurrent, requestsPerMinute, addresses, tags } = change;
  const expiry = [expiresAt !== undefined, expiresAt ?? null];
  const [isLimited, limitNanos, period] = budgetValues(change);
  const limits = [isLimited, limitNanos, models, maxConcurrent, period, requestsPerMinute, addresses];
  const values = [keyId, name, status, ...expiry, ...limits, tags];
  return (await database.query<RawRow>(statement, values)).map(fromRaw)[0];
}

/** Marks a key as deleted; undefined when there is none. One that was deleted before stays as it is. */
export async function markKeyDeleted(database: Database, keyId: string): Promise<KeyRow | undefined> {
  const statement = `update auth_quota.key
    set status = 'deleted', version = version + (status <> 'deleted')::int, updated_at = now()
    where key_id = $1 returning ${columns}`;
  return (await database.query<RawRow>(statement, [keyId])).map(fromRaw)[0];
}

/** Keys of an account, newest first. */
export async function listKeys(
  database: Database,
  accountId: string,
  { withDeleted, limit }: { withDeleted: boolean; limit: number },
): Promise<KeyRow[]> {
  const statement = `select ${columns} from auth_quota.key where account_id = $1 and ($2 or status <> 'deleted')
    order by created_at desc, key_id desc limit $3`;
  return (await database.query<RawRow>(statement, [accountId, withDeleted, limit])).map(fromRaw);
}

export async function findKeys(database: Database, keyIds: string[]): Promise<KeyRow[]> {
  const statement = `select ${columns} from auth_quota.key where key_id = any($1)`;
  return (await database.query<RawRow>(statement, [keyIds])).map(fromRaw);
}

/** Keys of all accounts whose secrets begin with `prefix`, newest first. It is no pattern: `_` stands for itself. */
export async function findKeysByPrefix(database: Database, prefix: string, limit: number): Promise<KeyRow[]> {
  const statement = `select ${columns} from auth_quota.key where secret_prefix collate "C" ^@ $1
    order by created_at desc, key_id desc limit $2`;
  return (await database.query<RawRow>(statement, [prefix, limit])).map(fromRaw);
}

/** Keys that were deleted 400 days ago, and of which Redis has taken that, the oldest first. */
export async function findForgettableKeys(database: Database, limit: number): Promise<Identity[]> {
  const statement = `select key_id as "keyId", account_id as "accountId" from auth_quota.key
    where status = 'deleted' and version <= pushed_version and updated_at < now() - interval '400 days'
    order by updated_at limit $1`;
  return database.query(statement, [limit]);
}

/** Forgets those of them; gives how many it were. */
export async function forgetKeys(database: Database, keyIds: readonly string[]): Promise<bigint> {
  const statement = "select auth_quota.forget_keys($1) as forgotten";
  const [row] = await database.query<{ forgotten: string }>(statement, [keyIds]);
  return BigInt(row?.forgotten ?? 0);
}

/** The keys that belong to hashes, given and told in base64. */
export async function findIdentities(database: Database, hashes: string[]): Promise<(Identity & { hash: string })[]> {
  const statement = `select key_id as "keyId", account_id as "accountId", encode(key_hash, 'base64') as hash
    from auth_quota.key where key_hash = any($1)`;
  return database.query(statement, [hashes.map((hash) => Buffer.from(hash, "base64"))]);
}

/** Keys whose newest version Redis has not certainly taken, but for so many that come first. */
export async function findUnpushedKeys(database: Database, limit: number, offset: number): Promise<KeyRow[]> {
  const statement = `select ${columns} from auth_quota.key where version > pushed_version limit $1 offset $2`;
  return (await database.query<RawRow>(statement, [limit, offset])).map(fromRaw);
}

/** Notes which versions Redis has taken; never lowers one. */
export async function markKeysPushed(database: Database, rows: KeyRow[]): Promise<void> {
  const statement = `update auth_quota.key as k set pushed_version = p.version
    from unnest($1::text[], $2::bigint[]) as p (key_id, version)
    where k.key_id = p.key_id and k.pushed_version < p.version`;
  await database.query(statement, [rows.map((row) => row.keyId), rows.map((row) => row.version)]);
}

/** Has everything changed in the last minutes pushed again. */
export async function forgetRecentKeyPushes(database: Database, minutes: number): Promise<void> {
  const statement = `update auth_quota.key set pushed_version = 0
    where updated_at > now() - make_interval(mins => $1) and pushed_version > 0`;
  await database.query(statement, [minutes]);
}
