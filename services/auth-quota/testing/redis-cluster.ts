import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { redisProgram } from "#shared/testing/redis.ts";
import { startStore, type Store } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { keyPrefix } from "../store/key-prefix.ts";

type ClusterNode = Store & { admin: Redis };

/** Three masters, of which `master` holds the store's keys, and one replica of it. */
export type RedisCluster = AsyncDisposable & {
  url: string;
  master: ClusterNode;
  replica: ClusterNode;
  others: ClusterNode[];
};

const slots = [
  [0, 5_460],
  [5_461, 10_922],
  [10_923, 16_383],
] as const;

export type ClusterOptions = {
  /**
   * How long a node may be silent before it is taken for dead and its replica takes over; on a loaded machine a node
   * that lives may well be silent for as long as the default.
   */
  nodeTimeoutMs?: number;
};

type NodePlace = { folder: string; nodeTimeoutMs: number };

async function startNode({ folder, nodeTimeoutMs }: NodePlace, resources: AsyncDisposableStack): Promise<ClusterNode> {
  const busPort = await freePort();
  const settings = ["--cluster-enabled", "yes", "--cluster-port", String(busPort)];
  // A replica may take over however far it is behind, and slots that nobody has keep none of the others from service.
  const failover = ["--cluster-node-timeout", String(nodeTimeoutMs), "--cluster-replica-validity-factor", "0"];
  failover.push("--cluster-require-full-coverage", "no");
  const binary = findStoreBinary("redis") ?? "redis-server";
  const program = redisProgram({ binary, folder, orphanSignal: "SIGKILL" });
  const plan = (port: number) => {
    const planned = program.plan(port);
    return { ...planned, args: [...planned.args, ...settings, ...failover] };
  };
  const store = resources.use(await startStore({ ...program, plan }));
  const admin = new Redis(store.url, { maxRetriesPerRequest: 0, retryStrategy: () => null });
  admin.on("error", () => undefined);
  resources.defer(() => admin.disconnect());
  await admin.call("CLUSTER", "SET-CONFIG-EPOCH", String(busPort));
  return Object.assign(store, { admin, busPort });
}

export async function startRedisCluster({ nodeTimeoutMs = 700 }: ClusterOptions = {}): Promise<RedisCluster> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "redis-cluster-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const names = ["a", "b", "c", "replica"];
  const nodes = await Promise.all(
    names.map((name) => startNode({ folder: join(folder, name), nodeTimeoutMs }, resources)),
  );
  const [first, , , replica] = nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode];
  const masters = nodes.slice(0, 3);
  await Promise.all(masters.map(({ admin }, at) => admin.cluster("ADDSLOTSRANGE", ...(slots[at] ?? slots[0]))));
  for (const node of nodes.slice(1)) {
    const { port, busPort } = node as ClusterNode & { busPort: number };
    await first.admin.call("CLUSTER", "MEET", "127.0.0.1", String(port), String(busPort));
  }
  const slot = await first.admin.cluster("KEYSLOT", keyPrefix);
  const at = slots.findIndex(([from, to]) => from <= slot && slot <= to);
  const master = masters[at] ?? first;
  const id = await master.admin.cluster("MYID");
  await until("the replica follows", async () => (await replica.admin.cluster("REPLICATE", id)) === "OK");
  const hasLink = async (): Promise<boolean> => /master_link_status:up/.test(await replica.admin.info("replication"));
  await until("the replica is up to date", hasLink, 20_000);
  const isUp = async ({ admin }: ClusterNode): Promise<boolean> => /cluster_state:ok/.test(await admin.cluster("INFO"));
  await until("the cluster is up", async () => (await Promise.all(nodes.map(isUp))).every(Boolean));
  const owned = resources.move();
  const others = masters.filter((node) => node !== master);
  const url = nodes.map((node) => node.url).join();
  return { url, master, replica, others, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
