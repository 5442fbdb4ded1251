import { hash } from "node:crypto";
import pg from "pg";
import type { DestinationStream } from "pino";
import { AuthQuotaService, type LimitPeriod } from "#proto/authquota/v1/authquota_pb.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import { startStores, type Stores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { startApp, type App } from "../app.ts";
import { readConfig, type Config } from "../config.ts";
import { migrate } from "../store/migrate.ts";
import { openRelayLine, type RelayLine } from "./relay-line.ts";
import { startStubBilling, type StubBilling } from "./stub-billing.ts";

/** One replica and what is needed to talk to it. */
export type Replica = AsyncDisposable & {
  app: App;
  admin: UnaryClient<typeof AuthQuotaService>;
  openLine: (relaySession: string) => RelayLine;
};

/** The whole service on real stores; billing is a stub behind real gRPC. */
export type AppEnvironment = AsyncDisposable & {
  stores: Stores<{ redis: true; postgres: true }>;
  billing: StubBilling;
  first: Replica;
  startReplica: (change?: Partial<Config>) => Promise<Replica>;
  /** Everything that the replicas have logged. */
  logText: () => string;
  /** Makes an account with money and a key. */
  createPayer: (nanos: bigint, key?: NewKey) => Promise<Payer>;
  ownerUrl: string;
};

type NewKey = {
  limitNanos?: bigint;
  limitPeriod?: LimitPeriod;
  models?: string[];
  addresses?: string[];
  requestsPerMinute?: number;
};

export type Payer = { accountId: string; keyId: string; secret: string; keyHash: Uint8Array };

export const hashOf = (secret: string): Uint8Array => hash("sha256", secret, "buffer");

export async function query(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

async function createServiceUrl(ownerUrl: string): Promise<string> {
  await query(ownerUrl, "create role auth_quota_service login password 'secret' in role auth_quota_rw");
  const url = new URL(ownerUrl);
  url.username = "auth_quota_service";
  url.password = "secret";
  return url.href;
}

async function connectReplica(app: App): Promise<Replica> {
  await until("auth-quota is ready", async () => {
    return (await fetch(`http://127.0.0.1:${app.opsPort}/readyz`)).status === 200;
  });
  const channel = connectGrpc(`127.0.0.1:${app.grpcPort}`);
  return {
    app,
    admin: unaryClient(AuthQuotaService, channel, 5_000),
    openLine: (relaySession) => openRelayLine(channel, relaySession),
    [Symbol.asyncDispose]: async () => {
      channel[Symbol.dispose]();
      await app[Symbol.asyncDispose]();
    },
  };
}

export async function startAppWorld(change: Partial<Config> = {}): Promise<AppEnvironment> {
  await using resources = new AsyncDisposableStack();
  const lines: string[] = [];
  const destination: DestinationStream = { write: (line: string) => void lines.push(line) };
  const log = createLog("auth-quota", "debug", destination);
  const stores = resources.use(await startStores({ redis: true, postgres: true }));
  const ownerUrl = await stores.postgres.createDatabase();
  await migrate(ownerUrl, log);
  const billing = resources.use(await startStubBilling(log));
  const told = { BILLING_ADDRESS: billing.address, HOLD_PROOF_KEYS: holdProofKeys };
  const own = { DATABASE_URL: await createServiceUrl(ownerUrl), REDIS_URL: stores.redis.url, ...told };
  const config: Config = {
    ...readConfig({ ...own, LOG_LEVEL: "debug", ALLOW_PLAIN_GRPC: "always" }),
    GRPC_PORT: 0,
    OPS_PORT: 0,
    RELAY_SILENT_MS: 120_000,
    ACCOUNT_REQUESTS_PER_MINUTE: 100_000,
    IP_REQUESTS_PER_MINUTE: 100_000,
    REBUILD_MS: 500,
    DRAIN_MS: 2_000,
    ...change,
  };
  const startReplica = async (own: Partial<Config> = {}): Promise<Replica> =>
    connectReplica(await startApp({ ...config, ...own }, log));
  const first = resources.use(await startReplica());
  let made = 0;
  const owned = resources.move();
  return {
    stores,
    billing,
    first,
    startReplica,
    ownerUrl,
    logText: () => lines.join(""),
    createPayer: async (nanos, key = {}) => {
      const accountId = `acct_app_${(made += 1)}`;
      billing.balances.set(accountId, { nanos, version: 1n });
      await first.admin.createAccount({ accountId, name: accountId });
      const { key: created, secret } = await first.admin.createKey({ accountId, name: "key", ...key });
      return { accountId, keyId: created?.keyId ?? "", secret, keyHash: hashOf(secret) };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
