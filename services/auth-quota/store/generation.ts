import type { Database } from "./postgres.ts";

/** The generation of a shard that this service has last seen; undefined when it has never seen one. */
export async function readGeneration(database: Database, shard: number): Promise<string | undefined> {
  const rows = await database.query<{ generation: string | null }>(
    `select case $1::integer when 0 then generation else generations[$1::integer] end as generation
     from auth_quota.hot_store`,
    [shard],
  );
  return rows[0]?.generation || undefined;
}

/** Remembers the generation, so that a Redis which loses everything is known from one that never held anything. */
export async function writeGeneration(database: Database, shard: number, generation: string): Promise<void> {
  const ofFirst = `insert into auth_quota.hot_store (is_only, generation) values (true, $1)
    on conflict (is_only) do update set generation = excluded.generation, seen_at = now()`;
  const ofOther = "update auth_quota.hot_store set generations[$2] = $1, seen_at = now()";
  await (shard === 0 ? database.query(ofFirst, [generation]) : database.query(ofOther, [generation, shard]));
}
