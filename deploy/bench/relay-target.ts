import { grpcFilesIn } from "../tools/certificates/folder.ts";
import type { Identity } from "#shared/grpc/identity.ts";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { until } from "#shared/testing/until.ts";
import { removeAtEnd } from "#shared/testing/watchdog.ts";
import { startStack, type Stack } from "../tools/local/stack.ts";
import type { Cores } from "./cores.ts";
import type { CpuReader } from "./cpu-meter.ts";
import { openLedger, type Ledger } from "./ledger.ts";
import { childrenOf, readProcessUse, readTreeCpuUs } from "./process-use.ts";
import { profilingVariables } from "./profiles.ts";
import { benchCatalog } from "./relay-catalog.ts";
import type { Target } from "./targets.ts";

const callsPerMinute = 1_000_000;
const callTimeoutMs = 10_000;
const catalogTimeoutMs = 30_000;
const keptTroubles = 20;
const isTrouble = /"level":"(?:warn|error|fatal)"/;

/** The relay with all that stands behind it, for as long as the bench runs. */
export type RelayTarget = Target &
  AsyncDisposable & {
    ledger: Ledger;
    secret: string;
    /** Where a proxy that charges finds what it needs. */
    environment: Record<string, string>;
    /** CPU of each process that works for its calls. */
    readers: Record<string, CpuReader>;
    /** Processes for whose work no caller waits: what becomes of a call when it has been answered. */
    lagging: () => number[];
    /** The last lines in which a service told of trouble: what is behind a call that failed. */
    troubles: () => readonly string[];
    /** Starts the relay's process anew, with a memory that no load has seen. */
    restart: () => Promise<void>;
    /** Puts more models into the catalog and waits until the relay has them. */
    extendCatalog: (moreModels: number) => Promise<void>;
  };

/** Another catalog than the bench's, and settings of the relay. */
export type RelayPlan = { catalog?: string; variables?: Record<string, string> };

/**
 * Starts the whole stack in a folder of its own, with an account whose money and rate limits do not run out: limits
 * are raised, not switched off, so every call still pays for them. CPU profiles go into the folder `profiles`.
 */
export async function startRelay(
  upstreamPort: number,
  cores: Cores,
  profiles?: string,
  other: RelayPlan = {},
): Promise<RelayTarget> {
  await using resources = new AsyncDisposableStack();
  const upstreamOrigin = `http://127.0.0.1:${upstreamPort}`;
  const folder = await mkdtemp(join(tmpdir(), "relay-bench-"));
  removeAtEnd(folder);
  resources.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const troubles: string[] = [];
  const stack = resources.use(
    await startStack({
      folder,
      environment: process.env,
      serviceEnvironment: variablesOf(profiles, other),
      catalog: other.catalog ?? benchCatalog(upstreamOrigin),
      onLine: (source, line) => {
        if (isTrouble.test(line)) troubles.push(`${source}: ${line}`);
        if (troubles.length > keptTroubles) troubles.shift();
      },
    }),
  );
  const { relay } = stack.services;
  cores.moveToMeasured(relay.pid);
  const { authQuotaAddress, billingAddress } = stack.addresses;
  const connect = (address: string, peer: Identity) => resources.use(connectGrpc(address, stack.credentials, peer));
  const authQuota = unaryClient(AuthQuotaService, connect(authQuotaAddress, "auth-quota"), callTimeoutMs);
  const billing = unaryClient(BillingService, connect(billingAddress, "billing"), callTimeoutMs);
  const ledger = openLedger(authQuota, billing);
  const [secret = ""] = await ledger.openAccounts({ accounts: 1, keys: 1, callsPerMinute });
  const owned = resources.move();
  return {
    name: "relay",
    port: Number(new URL(relay.url).port),
    get pid() {
      return relay.pid;
    },
    isVerbatim: true,
    secret,
    environment: {
      ...grpcFilesIn(stack.tlsFolder, "relay"),
      AUTH_QUOTA_ADDRESS: authQuotaAddress,
      NATS_URL: stack.stores.natsUrls.relay,
      CATALOG_FILE: stack.catalogFile,
      SPOOL_DIR: join(folder, "metered-spool"),
      ALLOW_PLAIN_HTTP: "loopback",
      DEMO_API_KEY: "demo",
    },
    headers: { authorization: `Bearer ${secret}` },
    readers: readersOf(stack),
    lagging: () => laggingOf(stack),
    ledger,
    troubles: () => troubles,
    restart: async () => {
      await relay.restart();
      cores.moveToMeasured(relay.pid);
    },
    extendCatalog: async (moreModels) => {
      const file = join(folder, "catalog.next.yaml");
      await writeFile(file, benchCatalog(upstreamOrigin, moreModels));
      const before = await countModels(relay.url, secret);
      await rename(file, stack.catalogFile);
      const hasChanged = async (): Promise<boolean> => (await countModels(relay.url, secret)) !== before;
      await until(`the relay offers ${moreModels} models more`, hasChanged, catalogTimeoutMs);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Limits are raised, and profiles asked for. */
function variablesOf(profiles: string | undefined, { variables }: RelayPlan): Record<string, Record<string, string>> {
  const profiling: Record<string, Record<string, string>> = profiles === undefined ? {} : profilingVariables(profiles);
  return {
    ...profiling,
    relay: { ...profiling["relay"], ...variables },
    "auth-quota": { IP_REQUESTS_PER_MINUTE: String(callsPerMinute), ...profiling["auth-quota"] },
  };
}

function readersOf({ services, stores }: Stack): Record<string, CpuReader> {
  const { redis, nats, postgres } = stores.processes;
  const reader = (pid: number | undefined, read: (known: number) => number): CpuReader =>
    pid === undefined ? () => Number.NaN : () => read(pid);
  const readOne = (pid: number): number => readProcessUse(pid).cpuUs;
  return {
    relay: () => readOne(services.relay.pid),
    "auth-quota": reader(services.authQuota.pid, readOne),
    billing: reader(services.billing.pid, readOne),
    Redis: reader(redis?.pid, readOne),
    NATS: reader(nats?.pid, readOne),
    PostgreSQL: reader(postgres?.pid, readTreeCpuUs),
  };
}

function laggingOf({ services, stores }: Stack): number[] {
  const { nats, postgres } = stores.processes;
  const known = [services.billing.pid, services.videoTask.pid, nats?.pid, postgres?.pid];
  const pids = known.filter((pid) => pid !== undefined);
  // PostgreSQL works in a process per connection.
  return [...pids, ...childrenOf(postgres?.pid ?? Number.NaN)];
}

async function countModels(relayUrl: string, secret: string): Promise<number> {
  const answer = await fetch(`${relayUrl}/v1/models`, { headers: { authorization: `Bearer ${secret}` } });
  const { data } = (await answer.json()) as { data: unknown[] };
  return data.length;
}
