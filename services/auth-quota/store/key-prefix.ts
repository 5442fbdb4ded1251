/** Beginning of all names. Within braces: the part that Redis Cluster places keys by. One script, so one slot. */
export const keyPrefix = "{auth-quota}";

/** How hot money is divided: into how many shards, and how often that number was changed. */
export type Layout = { shards: number; number: number };

/**
 * Beginnings of the names of all shards. Names are never used again after the number was changed: what lies under them
 * is as old as that change.
 */
export function shardPrefixes({ shards, number }: Layout): string[] {
  if (shards === 1 && number === 0) return [keyPrefix];
  return Array.from({ length: shards }, (_, shard) => `{auth-quota:${number}.${shard}}`);
}
