import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { findStoreBinary } from "#shared/testing/binaries.ts";
import { askLoopback } from "#shared/testing/loopback.ts";
import { redisProgram } from "#shared/testing/redis.ts";
import { startStore, type Store, type StoreProgram } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";

type Server = Store & { admin: Redis };

/** A master, its replica, and three Sentinels that watch them. */
export type RedisSentinel = AsyncDisposable & {
  url: string;
  master: Server;
  replica: Server;
  sentinels: Store[];
};

export type SentinelOptions = {
  /** The server's program; left out: that of this machine. */
  binary?: string;
  /** The password of Redis, and that of the Sentinels. */
  password?: string;
  sentinelPassword?: string;
};

const masterName = "money";

export async function startRedisSentinel(options: SentinelOptions = {}): Promise<RedisSentinel> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "redis-sentinel-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const { binary = findStoreBinary("redis") ?? "redis-server", password = "", sentinelPassword = "" } = options;
  const place = { binary, orphanSignal: "SIGKILL" as const };
  const secured = password === "" ? [] : ["--requirepass", password, "--masterauth", password];
  const serve = async (name: string, more: string[]): Promise<Server> => {
    const program = redisProgram({ ...place, folder: join(folder, name) });
    const plan = (port: number) => {
      const planned = program.plan(port);
      return { ...planned, args: [...planned.args, ...more] };
    };
    // One with a password tells nothing to whoever asks without it.
    const isServing = async (port: number): Promise<boolean> => /^[+-]/.test(await askLine(port));
    const store = resources.use(await startStore({ ...program, plan, ...(password !== "" && { isServing }) }));
    const admin = new Redis(store.url, { maxRetriesPerRequest: 0, retryStrategy: () => 200, ...login(password) });
    admin.on("error", () => undefined);
    resources.defer(() => admin.disconnect());
    return Object.assign(store, { admin });
  };
  const master = await serve("master", secured);
  const replica = await serve("replica", [...secured, "--replicaof", "127.0.0.1", String(master.port)]);
  const isUp = async (): Promise<boolean> => /master_link_status:up/.test(await replica.admin.info("replication"));
  await until("the replica is up to date", isUp, 20_000);
  const sentinels: Store[] = [];
  for (const name of ["a", "b", "c"]) {
    const program = sentinelProgram(binary, join(folder, name), { port: master.port, password, sentinelPassword });
    sentinels.push(resources.use(await startStore(program)));
  }
  await until("the Sentinels know each other", () => areAcquainted(sentinels, sentinelPassword), 30_000);
  const owned = resources.move();
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join();
  const user = password === "" ? "" : `:${encodeURIComponent(password)}@`;
  const query = sentinelPassword === "" ? "" : `?sentinelPassword=${encodeURIComponent(sentinelPassword)}`;
  const url = `redis+sentinel://${user}${hosts}/${masterName}${query}`;
  return { url, master, replica, sentinels, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const login = (password: string) => (password === "" ? {} : { password });
const askLine = (port: number): Promise<string> => askLoopback(port, "PING\r\n", (answer) => answer.endsWith("\r\n"));

type Watched = { port: number; password: string; sentinelPassword: string };

function sentinelProgram(binary: string, folder: string, watched: Watched): StoreProgram {
  const { port: masterPort, password, sentinelPassword } = watched;
  const file = join(folder, "sentinel.conf");
  const settings = [
    "bind 127.0.0.1",
    `dir ${folder}`,
    `sentinel monitor ${masterName} 127.0.0.1 ${masterPort} 2`,
    `sentinel down-after-milliseconds ${masterName} 1000`,
    `sentinel failover-timeout ${masterName} 3000`,
    ...(password === "" ? [] : [`sentinel auth-pass ${masterName} ${password}`]),
    ...(sentinelPassword === "" ? [] : [`requirepass ${sentinelPassword}`]),
  ];
  return {
    name: "sentinel",
    prepare: async () => {
      await mkdir(folder, { recursive: true });
      await writeFile(file, `${settings.join("\n")}\n`);
    },
    plan: (port) => ({
      command: binary,
      args: [file, "--sentinel", "--port", String(port)],
      orphanSignal: "SIGKILL",
    }),
    url: (port) => `redis://127.0.0.1:${port}`,
    isServing: async (port) => /^[+-]/.test(await askLine(port)),
    stopSignal: "SIGTERM",
  };
}

// Before that, two of them cannot agree that the master is down.
async function areAcquainted(sentinels: readonly Store[], password: string): Promise<boolean> {
  const known = await Promise.all(
    sentinels.map(async ({ url }) => {
      const admin = new Redis(url, login(password));
      try {
        const fields = (await admin.call("SENTINEL", "MASTER", masterName)) as string[];
        const valueOf = (name: string): string | undefined => fields[fields.indexOf(name) + 1];
        return valueOf("num-other-sentinels") === "2" && valueOf("num-slaves") === "1";
      } finally {
        admin.disconnect();
      }
    }),
  );
  return known.every(Boolean);
}
