import type { Change } from "./hot.ts";
import type { Database } from "./postgres.ts";

// One restore gives out fewer versions of a row than this.
const versionsPerRestore = 4_294_967_296n;

/**
 * Compares this database with what it was: at another place it was promoted or restored, and so it was where the
 * ledger's epoch is newer, if both are restored together, or where it is `behind` what Redis has taken from it. Then
 * every version becomes higher than any that was given out: of two versions Redis keeps the newer, and would keep
 * settings that this database does not know any more. Returns how often that has happened; undefined before the hot
 * store is established. `ledgerEpoch` 0: not known now.
 */
export async function countRestores(
  database: Database,
  { ledgerEpoch, isBehind }: RestoreSigns,
): Promise<number | undefined> {
  const rows = await database.query<{ restores: number }>(
    `with known as (
       select place, ledger_epoch from auth_quota.hot_store
     ), moved as (
       update auth_quota.hot_store as h set place = auth_quota.database_place(),
         ledger_epoch = greatest(h.ledger_epoch, $1),
         restores = h.restores + (h.place is not null)::int
       where ${hasMoved}
       returning h.restores
     ), noted as (
       update auth_quota.hot_store as h set ledger_epoch = $1
       where h.ledger_epoch = 0 and $1 > 0 and not exists (select from moved)
     ), accounts as (
       update auth_quota.account set version = version + $3
       where exists (select from moved where restores > 0)
     ), keys as (
       update auth_quota.key set version = version + $3 where exists (select from moved where restores > 0)
     )
     select coalesce((select restores from moved), (select restores from auth_quota.hot_store)) as restores`,
    [ledgerEpoch, isBehind, versionsPerRestore.toString()],
  );
  return rows[0]?.restores ?? undefined;
}

/** By what a restore is seen, beside the place. */
export type RestoreSigns = { ledgerEpoch: number; isBehind: boolean };

const hasMoved = `(h.place is distinct from auth_quota.database_place() or (h.ledger_epoch < $1 and h.ledger_epoch > 0)
  or $2)`;

/** Whether countRestores() would count one now. */
export async function isRestored(database: Database, { ledgerEpoch, isBehind }: RestoreSigns): Promise<boolean> {
  const rows = await database.query(`select from auth_quota.hot_store as h where place is not null and ${hasMoved}`, [
    ledgerEpoch,
    isBehind,
  ]);
  return rows.length > 0;
}

/**
 * Whether this database lacks one of these changes, which Redis takes behind their commit: a disk that was put back is
 * at the same place. A key of which the account is gone too could not come back, and would be behind for ever.
 */
export async function isBehind(database: Database, changes: readonly Change[]): Promise<boolean> {
  const rows = await database.query(
    `select from jsonb_populate_recordset(null::auth_quota.account, $1::jsonb) as kept
       left join auth_quota.account as known using (account_id)
       where known.version is null or known.version < kept.version
     union all
     select from jsonb_populate_recordset(null::auth_quota.key, $2::jsonb) as kept
       left join auth_quota.key as known using (key_id)
       where known.version < kept.version or known.version is null
         and exists (select from auth_quota.account as a where a.account_id = kept.account_id)`,
    [jsonOf(changes, "account"), jsonOf(changes, "key")],
  );
  return rows.length > 0;
}

const jsonOf = (changes: readonly Change[], kind: Change["kind"]): string =>
  `[${changes
    .filter((change) => change.kind === kind)
    .map(({ row }) => row)
    .join()}]`;

/**
 * Brings rows of a kind back to what they were, where the database does not know that change; what was changed after it
 * stays. Returns how many it did not know. Accounts come first: a key must have one.
 */
export async function takeChanges(
  database: Database,
  kind: Change["kind"],
  changes: readonly Change[],
): Promise<number> {
  if (!changes.some((change) => change.kind === kind)) return 0;
  return (await database.query(takeRows[kind], [jsonOf(changes, kind)])).length;
}

const budget = ["budget_nanos", "budget_period", "budget_from"];

const keyLimits = ["models", "max_concurrent", "requests_per_minute", "addresses", "tags"];

// Of a row that was kept before its table had these columns.
const former = {
  account: "null::auth_quota.account",
  key: `jsonb_populate_record(null::auth_quota.key, '{"requests_per_minute": 0, "addresses": [], "tags": []}')`,
};

const takeRows = {
  account: takeStatement(
    "account",
    ["created_at"],
    ["name", "status", "requests_per_minute", "max_concurrent", "limit_nanos", ...budget, "version", "updated_at"],
  ),
  key: takeStatement(
    "key",
    ["account_id", "key_hash", "secret_prefix", "created_at"],
    ["name", "status", "expires_at", "limit_nanos", ...budget, ...keyLimits, "version", "updated_at"],
  ),
};

function takeStatement(table: "account" | "key", fixed: string[], changing: string[]): string {
  const columns = [`${table}_id`, ...fixed, ...changing].join();
  return `insert into auth_quota.${table} as known (${columns})
    select ${columns} from jsonb_populate_recordset(${former[table]}, $1::jsonb) as kept
    ${table === "key" ? "where exists (select from auth_quota.account as a where a.account_id = kept.account_id)" : ""}
    on conflict (${table}_id) do update set ${changing.map((name) => `${name} = excluded.${name}`).join()}
      where known.version < excluded.version and known.updated_at <= excluded.updated_at
    returning 1`;
}
