import { setTimeout as pause } from "node:timers/promises";
import type { Logger } from "#shared/process/log.ts";
import type { Config } from "./config.ts";
import { createHotStore, type CallLimits } from "./store/hot.ts";
import { shardPrefixes, type Layout } from "./store/key-prefix.ts";
import { keepLayout, readLayout } from "./store/layout.ts";
import type { Database } from "./store/postgres.ts";
import { connectRedis, type HotRedis } from "./store/redis.ts";
import { createShards, type Shards } from "./store/shards.ts";

const againMs = 500;

/**
 * The layout of the hot money that PostgreSQL has recorded; a new installation records its own. Rejects when the number
 * is another one: money under other names would be granted twice. Waits for PostgreSQL where there are several; the one
 * shard of most installations can be had without it.
 */
export async function takeLayout(database: Database, wanted: number, log: Logger): Promise<Layout> {
  const layout = await keepLayout(database, wanted).catch((error: unknown) => {
    log.warn({ err: error }, "PostgreSQL does not tell the number of shards");
    return wanted === 1 ? { shards: 1, number: 0 } : keepWhenBack(database, wanted);
  });
  if (layout.shards === wanted) return layout;
  const told = `REDIS_SHARDS is ${wanted}, and the hot money of this installation is in ${layout.shards}`;
  throw new Error(`${told}: set REDIS_SHARDS=${layout.shards}, or see deploy/operations/shards.md`);
}

async function keepWhenBack(database: Database, wanted: number): Promise<Layout> {
  for (;;) {
    await pause(againMs);
    const layout = await keepLayout(database, wanted).catch(() => undefined);
    if (layout) return layout;
  }
}

const limitsOf = (config: Config): CallLimits => ({
  accountPerMinute: config.ACCOUNT_REQUESTS_PER_MINUTE,
  ipPerMinute: config.IP_REQUESTS_PER_MINUTE,
  accountConcurrent: config.ACCOUNT_MAX_CONCURRENT,
});

/**
 * Connects each shard by itself: a connection that is lost, or that finds its slot moved away, fails the runs of one
 * shard only, and those stay in the order of their numbers.
 */
export function openShards(
  config: Config,
  layout: Layout,
  { resources, log }: { resources: AsyncDisposableStack; log: Logger },
): { shards: Shards; connections: readonly HotRedis[] } {
  const { REDIS_URL: url, REDIS_CA_FILE: caFile } = config;
  const connections = shardPrefixes(layout).map((prefix) => resources.use(connectRedis(url, log, caFile, prefix)));
  const stores = connections.map((redis) => ({
    ...createHotStore(redis, limitsOf(config)),
    status: () => redis.status,
  }));
  return { shards: createShards(stores), connections };
}

/**
 * Creates the look at whether the layout is still the one that this process works by. When it is not, `outdated`
 * resolves: the process must end, and leaves Redis at once.
 */
export function watchLayout(database: Database, own: Layout, connections: readonly HotRedis[], log: Logger) {
  const outdated = Promise.withResolvers<string>();
  const look = async (): Promise<void> => {
    const { shards, number } = (await readLayout(database)) ?? (await keepLayout(database, own.shards));
    if (number === own.number && shards === own.shards) return;
    log.error({ shards, was: own.shards }, "the number of shards was changed: start again with it as REDIS_SHARDS");
    for (const redis of connections) redis.disconnect();
    outdated.resolve("number of shards changed");
  };
  return { look, outdated: outdated.promise };
}
