import type { Database } from "./postgres.ts";

/** The generation of the hot store that this service has last seen; undefined when it has never seen one. */
export async function readGeneration(database: Database): Promise<string | undefined> {
  const rows = await database.query<{ generation: string }>("select generation from auth_quota.hot_store", []);
  return rows[0]?.generation;
}

/** Remembers the generation, so that a Redis which loses everything is known from one that never held anything. */
export async function writeGeneration(database: Database, generation: string): Promise<void> {
  const statement = `insert into auth_quota.hot_store (is_only, generation) values (true, $1)
    on conflict (is_only) do update set generation = excluded.generation, seen_at = now()`;
  await database.query(statement, [generation]);
}
