import { createWriteStream, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findStoreBinary, type StoreName } from "#shared/testing/binaries.ts";
import { freePort, isPortFree } from "#shared/testing/free-port.ts";
import { natsProgram } from "#shared/testing/nats.ts";
import { postgresProgram } from "#shared/testing/postgres.ts";
import { redisProgram } from "#shared/testing/redis.ts";
import { startStore, type Store } from "#shared/testing/store.ts";
import { until } from "#shared/testing/until.ts";
import { startContainers } from "./compose.ts";
import { ensureDatabase } from "./database.ts";
import { prepareStores, thisMachine } from "./machine.ts";
import { natsLogins, natsSettings, sameForAll, type NatsUrls } from "./nats-logins.ts";
import { redisLogins, redisSettings } from "./redis-logins.ts";
import type { LocalState } from "./state.ts";

export type StoreUrls = Record<StoreName, string>;

export type LocalStoresOptions = {
  /** Absolute path of the data folder. */
  folder: string;
  state: LocalState;
  /** Stores that run elsewhere; PostgreSQL's URL must be of a role that may create roles and schemas. */
  given: Partial<StoreUrls>;
  /** Whether commits wait for the disk; false only for throw-away data. */
  isDurable: boolean;
  environment: NodeJS.ProcessEnv;
  say: (text: string) => void;
};

export type LocalStores = AsyncDisposable & {
  /** By which whoever started them may do everything. */
  urls: StoreUrls;
  /** By which each service logs in to NATS; all the same where it runs elsewhere or in a container. */
  natsUrls: NatsUrls;
  /** By which auth-quota logs in to Redis; the one of `urls` where it runs elsewhere or in a container. */
  redisUrl: string;
  /** The stores that run as processes of this stack. */
  processes: Partial<Record<StoreName, Store>>;
};

// A process left behind has five seconds to end, one after the other.
const abandonedTimeoutMs = 40_000;
const allStores: StoreName[] = ["redis", "nats", "postgres"];

/**
 * Provides the three stores: given URLs first, then programs of this machine (installed if need be), then containers.
 */
export async function startLocalStores(options: LocalStoresOptions): Promise<LocalStores> {
  const { given, state, say } = options;
  const wanted = allStores.filter((name) => !given[name]);
  const { inContainers } = await prepareStores(wanted, thisMachine(say));
  await using resources = new AsyncDisposableStack();

  const urls: Partial<StoreUrls> = { ...given };
  const processes: LocalStores["processes"] = {};
  for (const name of wanted.filter((store) => !inContainers.includes(store))) {
    const store = resources.use(await startStore(await programOf(name, options), state.ports[name]));
    state.ports[name] = store.port;
    processes[name] = store;
    urls[name] = store.url;
  }
  if (inContainers.length > 0) {
    say(`starting ${inContainers.join(", ")} in containers`);
    const { id, passwords } = state;
    const project = `model-relay-${id}`;
    const settings = { project, postgresPassword: passwords.postgres, environment: options.environment };
    Object.assign(urls, resources.use(await startContainers(inContainers, settings)).urls);
  }
  const complete = urls as StoreUrls;
  let natsUrls = sameForAll(complete.nats);
  if (processes.nats) {
    const { operator, services } = natsLogins(complete.nats, state.passwords);
    complete.nats = operator;
    natsUrls = services;
  }
  let redisUrl = complete.redis;
  if (processes.redis) ({ operator: complete.redis, authQuota: redisUrl } = redisLogins(redisUrl, state.passwords));
  if (!given.postgres) complete.postgres = await ensureDatabase(complete.postgres);
  const owned = resources.move();
  return { urls: complete, natsUrls, redisUrl, processes, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/**
 * Waits until the processes that a killed stack left behind have ended, which gives their ports back and lets go of
 * the data. A port that stays taken belongs to a stranger by now; the stack will choose another.
 */
export async function waitForAbandoned({ ports }: LocalState, say: (text: string) => void): Promise<void> {
  say("the stack before ended abruptly; waiting until its processes have ended");
  const areFree = async (): Promise<boolean> =>
    (await Promise.all(Object.values(ports).map(isPortFree))).every(Boolean);
  try {
    await until("all ports are free", areFree, abandonedTimeoutMs);
  } catch {
    say("some of its ports stay taken; choosing others");
  }
}

async function programOf(name: StoreName, options: LocalStoresOptions) {
  const { state, isDurable } = options;
  const folder = name === "postgres" ? await postgresFolder(options) : join(options.folder, name);
  state.ports[name] ??= await freePort();
  const place = { binary: findStoreBinary(name) as string, folder, onLine: await logFile(name, options.folder) };
  if (name === "redis") return redisProgram({ ...place, orphanSignal: "SIGTERM" }, redisSettings(state.passwords));
  if (name === "nats") return natsProgram({ ...place, orphanSignal: "SIGTERM" }, natsSettings(state.passwords));
  return postgresProgram({ ...place, orphanSignal: "SIGINT", password: state.passwords.postgres, isDurable });
}

async function logFile(name: StoreName, folder: string): Promise<(line: string) => void> {
  await mkdir(join(folder, "log"), { recursive: true });
  const file = createWriteStream(join(folder, "log", `${name}.log`));
  file.on("error", () => undefined);
  return (line) => void file.write(`${line}\n`);
}

// As root PostgreSQL runs under another user, whom a home directory like /root keeps out.
async function postgresFolder({ folder, state, say }: LocalStoresOptions): Promise<string> {
  if (process.getuid?.() !== 0 || isOpenToAll(folder)) return join(folder, "postgres");
  const elsewhere = join("/var/lib/model-relay", state.id);
  await mkdir(elsewhere, { recursive: true, mode: 0o711 });
  say(`PostgreSQL's user cannot reach ${folder}; its data is in ${elsewhere}`);
  return join(elsewhere, "postgres");
}

function isOpenToAll(folder: string): boolean {
  const parent = dirname(folder);
  const isOpen = (statSync(folder).mode & 0o001) !== 0;
  return isOpen && (parent === folder || isOpenToAll(parent));
}
