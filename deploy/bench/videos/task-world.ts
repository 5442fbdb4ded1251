import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "@nats-io/transport-node";
import { freePort } from "#shared/testing/free-port.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores, type PostgresStore } from "#shared/testing/stores.ts";
import { declareUsageStream } from "../../../services/video-task/testing/ledger-double.ts";
import { createTasksDatabase, type TasksDatabase } from "../../../services/video-task/testing/tasks-database.ts";
import { startAnnounced, type Started } from "../announced.ts";
import { startScriptedLedger, type ScriptedLedger } from "./scripted-ledger.ts";

/** NATS, a PostgreSQL that waits for its disk, a provider of videos and a stand-in for billing. */
export type TaskWorld = AsyncDisposable & {
  postgres: PostgresStore;
  natsUrl: string;
  natsPid: number;
  provider: Started;
  providerUrl: string;
  /** Where the provider writes every task that it took. */
  truthFile: string;
  catalogFile: string;
  ledger: ScriptedLedger;
};

/** A video-task process, with the address of its metrics. */
export type Service = Started & { opsUrl: string };

const entries = {
  service: fileURLToPath(import.meta.resolve("../../../services/video-task/main.ts")),
  provider: fileURLToPath(import.meta.resolve("./provider-process.ts")),
};

/** Starts it. Without `hasTruth` the provider writes nothing down: a line for each poll would be its work, too. */
export async function startTaskWorld({ hasTruth }: { hasTruth: boolean }): Promise<TaskWorld> {
  await using resources = new AsyncDisposableStack();
  const { nats, postgres } = resources.use(await startStores({ nats: true, postgres: true, isDurable: true }));
  const folder = await mkdtemp(join(tmpdir(), "bench-videos-"));
  resources.defer(() => rm(folder, { recursive: true }));
  await declareStream(nats.url);
  const ledger = resources.use(await startScriptedLedger(nats.url));
  const truthFile = join(folder, "truth.jsonl");
  const args = [entries.provider, ...(hasTruth ? [truthFile] : [])];
  const provider = resources.use(await startAnnounced({ command: process.execPath, args }));
  const providerUrl = `http://127.0.0.1:${provider.port}`;
  const catalogFile = join(folder, "catalog.yaml");
  const first = { base_url: providerUrl, dialects: ["openai-videos"], credential: { env: "STUDIO_KEY" } };
  await writeFile(catalogFile, JSON.stringify({ upstreams: { first } }));
  const owned = resources.move();
  return {
    postgres,
    natsUrl: nats.url,
    natsPid: nats.pid,
    provider,
    providerUrl,
    truthFile,
    catalogFile,
    ledger,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function declareStream(natsUrl: string): Promise<void> {
  const connection = await connect({ servers: natsUrl });
  try {
    await declareUsageStream(connection);
  } finally {
    await connection.close();
  }
}

/** A database with no task in it. Dropped at the end, lest its data be written out while the next is measured. */
export async function openTasks({ postgres }: TaskWorld): Promise<TasksDatabase> {
  const database = await createTasksDatabase(postgres);
  await query(postgres.url, "CHECKPOINT");
  const drop = async (): Promise<void> => {
    await database[Symbol.asyncDispose]();
    await query(postgres.url, `DROP DATABASE ${new URL(database.ownerUrl).pathname.slice(1)} WITH (FORCE)`);
  };
  return { ...database, [Symbol.asyncDispose]: drop };
}

/** Starts video-task as it is run in production, but for `variables`. */
export async function startService(
  world: TaskWorld,
  database: TasksDatabase,
  variables: Record<string, string>,
): Promise<Service> {
  const opsPort = await freePort();
  const environment = {
    GRPC_PORT: "0",
    OPS_PORT: String(opsPort),
    DATABASE_URL: database.url,
    NATS_URL: world.natsUrl,
    ALLOW_PLAIN_GRPC: "always",
    BILLING_ADDRESS: world.ledger.address,
    CATALOG_FILE: world.catalogFile,
    STUDIO_KEY: "sk-studio",
    ...variables,
  };
  const started = await startAnnounced({ command: process.execPath, args: [entries.service], environment });
  return Object.assign(started, { opsUrl: `http://127.0.0.1:${opsPort}` });
}
