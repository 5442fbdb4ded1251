import { createServiceDatabase, type ServiceDatabase } from "#shared/testing/service-database.ts";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLog } from "#shared/process/log.ts";
import { query } from "#shared/testing/postgres.ts";
import { type Databases, sharePostgres } from "#shared/testing/share.ts";
import { startApp, type App, type Outside } from "../app.ts";
import { readConfig, type Config } from "../config.ts";
import { migrate } from "../store/migrate.ts";
import { createBrowser, type Browser } from "./browser.ts";
import { serveNeighbours, type Neighbours } from "./neighbours.ts";

/** The schema `console` in a database of its own. */
export type ConsoleDatabase = ServiceDatabase & {
  /** As the owner. */
  sql: (statement: string) => Promise<Record<string, unknown>[]>;
};

/** Makes a database, its schema and a login for the service. */
export async function createConsoleDatabase(postgres: Databases): Promise<ConsoleDatabase> {
  const database = await createServiceDatabase(postgres, "console", migrate);
  return { ...database, sql: async (statement) => (await query(database.ownerUrl, statement)).rows };
}

/** The whole service on a real PostgreSQL, with neighbours that follow a script. */
export type World = AsyncDisposable & {
  database: ConsoleDatabase;
  neighbours: Neighbours;
  app: App;
  config: Config;
  /** The time that the console and its neighbours go by; moved by tests. */
  clock: { nowMs: () => number; moveMs: number };
  /** Another replica. */
  startReplica: (change?: Partial<Config>) => Promise<App>;
  /** Everything that the replicas have logged. */
  logText: () => string;
  /** A browser with no cookies, over HTTPS as a trusted proxy tells it, from an address of its own. */
  browser: (app?: App) => Browser;
  /** The token of the first start. */
  bootstrapToken: () => string;
};

// The least that Argon2 takes: tests hash hundreds of passwords.
const cheap = { PASSWORD_MEMORY_KIB: 8, PASSWORD_PASSES: 1 };

/** Starts the neighbours and one replica, on the PostgreSQL that the test files of this process share. */
export async function startWorld(change: Partial<Config> = {}, outside?: Outside): Promise<World> {
  await using resources = new AsyncDisposableStack();
  const postgres = resources.use(await sharePostgres());
  const database = resources.use(await createConsoleDatabase(postgres));
  const clock = { moveMs: 0, nowMs: () => Date.now() + clock.moveMs };
  const neighbours = resources.use(await serveNeighbours(clock.nowMs));
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "console-key-")));
  const keyFile = join(folder.path, "secrets.key");
  writeFileSync(keyFile, randomBytes(32).toString("base64"));
  const config = {
    ...readConfig({
      HTTP_PORT: "0",
      OPS_PORT: "0",
      ALLOW_PLAIN_GRPC: "always",
      DATABASE_URL: database.url,
      AUTH_QUOTA_ADDRESS: neighbours.authQuotaAddress,
      BILLING_ADDRESS: neighbours.billingAddress,
      VIDEO_TASK_ADDRESS: neighbours.videoTaskAddress,
      RELAY_ADDRESSES: neighbours.relayAddress,
      API_URL: "https://api.example",
      PUBLIC_URL: "https://console.example",
      SECRETS_KEY_FILE: keyFile,
      TRUSTED_PROXIES: "127.0.0.1",
      GUESSES_PER_MINUTE: "1000",
      DRAIN_MS: "100",
    }),
    ...cheap,
    ...change,
  };
  let logText = "";
  const log = createLog("console", "info", { write: (line: string) => void (logText += line) });
  const start = (other: Partial<Config> = {}): Promise<App> => startApp({ ...config, ...other }, log, clock, outside);
  const app = resources.use(await start());
  const owned = resources.move();
  return {
    database,
    neighbours,
    app,
    config,
    clock,
    startReplica: async (other) => owned.use(await start(other)),
    logText: () => logText,
    browser: (of = app) => createBrowser(of.httpPort),
    bootstrapToken: () => /"bootstrapToken":"([\w-]+)"/.exec(logText)?.[1] ?? "",
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
