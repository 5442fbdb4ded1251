import {
  budgetColumns,
  budgetValues,
  changeBudget,
  fromRawBudget,
  type Budget,
  type BudgetChange,
  type RawBudget,
} from "./budgets.ts";
import type { Database } from "./postgres.ts";
import { isTaken } from "./postgres.ts";

/** A row of auth_quota.account; its budget is for what all its keys spend together. */
export type AccountRow = Budget & {
  accountId: string;
  name: string;
  status: "active" | "suspended";
  requestsPerMinute: number;
  /** Calls under way; 0: the service's default. */
  maxConcurrent: number;
  version: bigint;
  createdAt: Date;
  updatedAt: Date;
  /** All of it in JSON. */
  row: string;
};

export type AccountChange = BudgetChange & {
  name: string | undefined;
  status: AccountRow["status"] | undefined;
  requestsPerMinute: number | undefined;
  maxConcurrent: number | undefined;
};

type RawRow = Omit<AccountRow, "version" | keyof RawBudget> & RawBudget & { version: string };

const columns = `account_id as "accountId", name, status, requests_per_minute as "requestsPerMinute",
  max_concurrent as "maxConcurrent", ${budgetColumns}, version, created_at as "createdAt",
  updated_at as "updatedAt", to_jsonb(account)::text as "row"`;

const fromRaw = (raw: RawRow): AccountRow => ({ ...raw, ...fromRawBudget(raw), version: BigInt(raw.version) });

/** Adds an account; undefined when its id is taken. */
export async function insertAccount(
  database: Database,
  account: Pick<AccountRow, "accountId" | "name" | "requestsPerMinute" | "maxConcurrent">,
): Promise<AccountRow | undefined> {
  const statement = `insert into auth_quota.account (account_id, name, requests_per_minute, max_concurrent)
    values ($1, $2, $3, $4) returning ${columns}`;
  const { accountId, name, requestsPerMinute, maxConcurrent } = account;
  try {
    const rows = await database.query<RawRow>(statement, [accountId, name, requestsPerMinute, maxConcurrent]);
    return rows.map(fromRaw)[0];
  } catch (error) {
    if (isTaken(error)) return undefined;
    throw error;
  }
}

/** Changes an account and raises its version; undefined when there is none. See changeBudget for its budget. */
export async function updateAccount(
  database: Database,
  accountId: string,
  change: AccountChange,
): Promise<AccountRow | undefined> {
  const statement = `update auth_quota.account
    set name = coalesce($2, name), status = coalesce($3, status),
      requests_per_minute = coalesce($4, requests_per_minute), max_concurrent = coalesce($5, max_concurrent),
      ${changeBudget("$6", "$7", "$8")},
      version = version + 1, updated_at = now()
    where account_id = $1 returning ${columns}`;
  const { name, status, requestsPerMinute, maxConcurrent } = change;
  const values = [accountId, name, status, requestsPerMinute, maxConcurrent, ...budgetValues(change)];
  return (await database.query<RawRow>(statement, values)).map(fromRaw)[0];
}

/**
 * Accounts after an id whose id or name holds a text ("": all), in the order of their ids (by bytes, whatever the
 * database's language). Case does not matter for the letters that this language knows; in "C" those are a to z.
 */
export async function listAccounts(
  database: Database,
  { afterId, search, limit }: { afterId: string; search: string; limit: number },
): Promise<AccountRow[]> {
  const statement = `select ${columns} from auth_quota.account
    where account_id collate "C" > $1
      and (strpos(lower(account_id), lower($2)) > 0 or strpos(lower(name), lower($2)) > 0)
    order by account_id collate "C" limit $3`;
  return (await database.query<RawRow>(statement, [afterId, search, limit])).map(fromRaw);
}

export async function findAccounts(database: Database, accountIds: string[]): Promise<AccountRow[]> {
  const statement = `select ${columns} from auth_quota.account where account_id = any($1)`;
  return (await database.query<RawRow>(statement, [accountIds])).map(fromRaw);
}

/** Accounts whose newest version Redis has not certainly taken, but for so many that come first. */
export async function findUnpushedAccounts(database: Database, limit: number, offset: number): Promise<AccountRow[]> {
  const statement = `select ${columns} from auth_quota.account where version > pushed_version limit $1 offset $2`;
  return (await database.query<RawRow>(statement, [limit, offset])).map(fromRaw);
}

/** Notes which versions Redis has taken; never lowers one. */
export async function markAccountsPushed(database: Database, rows: AccountRow[]): Promise<void> {
  const statement = `update auth_quota.account as a set pushed_version = p.version
    from unnest($1::text[], $2::bigint[]) as p (account_id, version)
    where a.account_id = p.account_id and a.pushed_version < p.version`;
  await database.query(statement, [rows.map((row) => row.accountId), rows.map((row) => row.version)]);
}

/** Has everything changed in the last minutes pushed again. */
export async function forgetRecentAccountPushes(database: Database, minutes: number): Promise<void> {
  const statement = `update auth_quota.account set pushed_version = 0
    where updated_at > now() - make_interval(mins => $1) and pushed_version > 0`;
  await database.query(statement, [minutes]);
}
