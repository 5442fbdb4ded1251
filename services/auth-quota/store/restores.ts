import type { Database } from "./postgres.ts";

// One restore gives out fewer versions of a row than this.
const versionsPerRestore = 4_294_967_296n;

/**
 * Compares this database with what it was: at another place it was promoted or restored, and so it was where the
 * ledger's epoch is newer, if both are restored together. Then every version becomes higher than any that was given
 * out: of two versions Redis keeps the newer, and would keep settings that this database does not know any more.
 * Returns how often that has happened; undefined before the hot store is established. `ledgerEpoch` 0: not known now.
 */
export async function countRestores(database: Database, ledgerEpoch: number): Promise<number | undefined> {
  const rows = await database.query<{ restores: number }>(
    `with known as (
       select place, ledger_epoch from auth_quota.hot_store
     ), moved as (
       update auth_quota.hot_store as h set place = auth_quota.database_place(),
         ledger_epoch = greatest(h.ledger_epoch, $1),
         restores = h.restores + (h.place is not null)::int
       where h.place is distinct from auth_quota.database_place() or (h.ledger_epoch < $1 and h.ledger_epoch > 0)
       returning h.restores
     ), noted as (
       update auth_quota.hot_store as h set ledger_epoch = $1
       where h.ledger_epoch = 0 and $1 > 0 and not exists (select from moved)
     ), accounts as (
       update auth_quota.account set version = version + $2
       where exists (select from moved where restores > 0)
     ), keys as (
       update auth_quota.key set version = version + $2 where exists (select from moved where restores > 0)
     )
     select coalesce((select restores from moved), (select restores from auth_quota.hot_store)) as restores`,
    [ledgerEpoch, versionsPerRestore.toString()],
  );
  return rows[0]?.restores ?? undefined;
}
