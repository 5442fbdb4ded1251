import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { forgetKey } from "../store/hot.ts";
import { findForgettableKeys, forgetKeys } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";
import { byShard, type Shards } from "../store/shards.ts";

const atOnce = 500;

/**
 * Forgets keys that were deleted 400 days ago, first in Redis, where one stays while money of it is held or not booked
 * yet; at most 500, so that one that stays keeps few others waiting. Gives how many it were.
 */
export async function forgetDeletedKeys(database: Database, shards: Shards): Promise<bigint> {
  const due = await findForgettableKeys(database, atOnce);
  const gone: string[] = [];
  for (const [shard, keys] of byShard(shards, due, ({ accountId }) => accountId)) {
    if (!shard.isReady()) continue;
    const answers = await shard.apply(
      "",
      keys.map(({ keyId }) => forgetKey(keyId)),
    );
    gone.push(...keys.filter((_, index) => answers[index]?.code === Verdict.OK).map(({ keyId }) => keyId));
  }
  return gone.length === 0 ? 0n : await forgetKeys(database, gone);
}
