import type { Layout } from "./key-prefix.ts";
import type { Database } from "./postgres.ts";

/** The layout that is recorded; `shards` is recorded where there is none. */
export async function keepLayout(database: Database, shards: number): Promise<Layout> {
  const statement = `insert into auth_quota.hot_store (is_only, generation, shards) values (true, '', $1)
    on conflict (is_only) do nothing`;
  await database.query(statement, [shards]);
  const layout = await readLayout(database);
  if (!layout) throw new Error("auth_quota.hot_store has no row");
  return layout;
}

export async function readLayout(database: Database): Promise<Layout | undefined> {
  const rows = await database.query<Layout>("select shards, layout as number from auth_quota.hot_store", []);
  return rows[0];
}

/** The generation of a shard whose number was changed: it begins as one that has lost everything. */
const changed = "changed";

/** Records another number of shards, with no account moved, unless somebody else has changed it; undefined then. */
export async function changeLayout(database: Database, from: Layout, shards: number): Promise<Layout | undefined> {
  const rows = await database.query<Layout>(
    `with moved as (delete from auth_quota.account_shard where exists (
       select from auth_quota.hot_store where shards = $1 and layout = $2))
     update auth_quota.hot_store set shards = $3, layout = layout + 1, generation = $4,
       generations = array_fill($4::text, array[greatest($3 - 1, 0)])
     where shards = $1 and layout = $2 returning shards, layout as number`,
    [from.shards, from.number, shards, changed],
  );
  return rows[0];
}
