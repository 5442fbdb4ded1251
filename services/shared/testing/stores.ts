import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { findStoreBinary, type StoreName } from "./binaries.ts";
import { dataFolder } from "./data-folder.ts";
import { natsProgram } from "./nats.ts";
import { createDatabase, postgresProgram } from "./postgres.ts";
import { redisProgram } from "./redis.ts";
import { startStore, type Store } from "./store.ts";
import { removeAtEnd } from "./watchdog.ts";

export type PostgresStore = Store & {
  /** Makes a database and returns its URL, as the superuser: an empty one, or a copy of one that nobody uses now. */
  createDatabase: (copied?: string) => Promise<string>;
};

type StoreSelection = {
  redis?: boolean;
  nats?: boolean;
  postgres?: boolean;
  /** Whether PostgreSQL waits for its disk; without it a killed process loses nothing, but a crashed machine would. */
  isDurable?: boolean;
};

/** The stores asked for. Disposal ends them and deletes their data; so does the death of this process. */
export type Stores<W extends StoreSelection> = AsyncDisposable & {
  redis: W["redis"] extends true ? Store : undefined;
  nats: W["nats"] extends true ? Store : undefined;
  postgres: W["postgres"] extends true ? PostgresStore : undefined;
};

/**
 * Starts real servers on free loopback ports, with data of their own in a temporary folder, in memory where there is
 * room. They may be killed and restarted at will.
 */
export async function startStores<const W extends StoreSelection>(wanted: W): Promise<Stores<W>> {
  const folder = await mkdtemp(join(dataFolder(), "relay-stores-"));
  // PostgreSQL runs as another user when this is root, and must pass through.
  await chmod(folder, 0o711);
  removeAtEnd(folder);
  await using resources = new AsyncDisposableStack();
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

  const attempts = await Promise.allSettled([
    wanted.redis ? startStore(redisProgram(place("redis", folder))) : undefined,
    wanted.nats ? startStore(natsProgram(place("nats", folder))) : undefined,
    wanted.postgres ? startPostgres(folder, wanted.isDurable ?? false) : undefined,
  ]);
  for (const attempt of attempts) if (attempt.status === "fulfilled" && attempt.value) resources.use(attempt.value);
  for (const attempt of attempts) if (attempt.status === "rejected") throw attempt.reason;
  const [redis, nats, postgres] = attempts.map((attempt) => (attempt.status === "fulfilled" ? attempt.value : null));
  const owned = resources.move();
  return { redis, nats, postgres, [Symbol.asyncDispose]: () => owned.disposeAsync() } as unknown as Stores<W>;
}

function place(name: StoreName, folder: string) {
  const binary = findStoreBinary(name);
  if (!binary) throw new Error(`${name} is not installed; \`npm test\` installs it, or says how`);
  return { binary, folder: join(folder, name), orphanSignal: "SIGKILL" as const };
}

async function startPostgres(folder: string, isDurable: boolean): Promise<PostgresStore> {
  const password = randomBytes(16).toString("hex");
  const where = { ...place("postgres", folder), orphanSignal: "SIGQUIT" as const };
  const program = postgresProgram({ ...where, password, isDurable });
  // Immediate shutdown: nobody waits for a checkpoint of data that is about to be deleted.
  const store = await startStore({ ...program, stopSignal: "SIGQUIT" });
  return Object.assign(store, { createDatabase: (copied?: string) => createDatabase(store.url, copied) });
}
