import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Writable } from "node:stream";
import { openGrpcCredentials, type GrpcCredentials } from "#shared/grpc/credentials.ts";
import { every } from "#shared/process/lifecycle.ts";
import { createLog, type Logger } from "#shared/process/log.ts";
import { grpcFilesIn, keepCertificates } from "../certificates/folder.ts";
import { migrateSchemas } from "../migrate/schemas.ts";
import { startConsole } from "./console.ts";
import { ensureLogins, type ServiceLogins } from "./database.ts";
import { catalogFor, type DemoUrls, hasProviderKey, writeCatalog } from "./demo-catalog.ts";
import { startLocalStores, waitForAbandoned, type LocalStores, type StoreUrls } from "./local-stores.ts";
import { lockFolder } from "./lock.ts";
import { seed, seededAccountId, type SeededKey } from "./seed.ts";
import { startService, type Service, type ServicePlan } from "./service.ts";
import { claimPort, openState, saveState, type LocalState } from "./state.ts";

export type ServiceName = "relay" | "auth-quota" | "billing" | "video-task";

export type StackOptions = {
  /** Absolute path of the data folder; a second start on it keeps the data. */
  folder: string;
  /** Environment of the services, under the variables that the stack sets itself. */
  environment: NodeJS.ProcessEnv;
  /** Stores that run elsewhere. */
  given?: Partial<StoreUrls>;
  /** More variables for single services; they win over everything. */
  serviceEnvironment?: Partial<Record<ServiceName, Record<string, string>>>;
  /** By what the services know whoever seeds the stack; left out: by the certificate of `admin` that it makes. */
  credentials?: GrpcCredentials | undefined;
  /** Changes what a service is told of where the others answer, for tests that put something in between. */
  reroute?: (service: ServiceName, variables: Record<string, string>) => Record<string, string>;
  /** Text of the catalog, whose upstreams the caller provides; without it, providers or the demo upstream. */
  catalog?: string;
  /** Whether PostgreSQL waits for the disk; false for throw-away data. */
  isDurable?: boolean;
  /** Whether the console runs too; no call needs it. */
  hasConsole?: boolean;
  /** Whether services that crash are started again. */
  areRestarted?: boolean;
  /** Gets every line that the services write, and the stack's own words from the source `local`. */
  onLine: (source: string, line: string) => void;
};

/** A whole system on this machine. Disposal stops console, relay, video-task, billing, auth-quota, stores in turn. */
export type Stack = AsyncDisposable & {
  services: { relay: Service; authQuota: Service; billing: Service; videoTask: Service };
  demo: Service | undefined;
  /** Where it answers, and the token for its first operator. */
  console: { url: string; bootstrapToken: string | undefined } | undefined;
  stores: LocalStores;
  logins: ServiceLogins;
  /** Holds the certificates of the services, see `grpcFilesIn`. */
  tlsFolder: string;
  /** Those of the operator, for calls to the services. */
  credentials: GrpcCredentials;
  addresses: Addresses;
  catalogFile: string;
  isCatalogEdited: boolean;
  accountId: string;
  key: SeededKey;
};

/** Where things answer; written to addresses.json for the operator's tool. */
export type Addresses = {
  relayUrl: string;
  /** Where the relay tells its state. */
  relayAddress: string;
  authQuotaAddress: string;
  billingAddress: string;
  videoTaskAddress: string;
  opsUrls: Record<ServiceName, string>;
};

const loopback = "127.0.0.1";
const renewCheckMs = 3_600_000;
const root = join(import.meta.dirname, "../../..");

/** Starts stores, migrates, starts the services, waits until all are ready, and seeds one account with a key. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { folder, onLine } = options;
  const say = (text: string): void => onLine("local", text);
  await using resources = new AsyncDisposableStack();
  const state = await openState(folder);
  const lock = resources.use(await lockFolder(folder));
  if (lock.wasAbandoned) await waitForAbandoned(state, say);
  const { given = {}, environment, isDurable = true } = options;
  say("starting stores");
  const stores = resources.use(await startLocalStores({ folder, state, given, isDurable, environment, say }));
  const logins = await migrateAll(stores.urls.postgres, state, logTo(onLine));
  await saveState(folder, state);

  const tlsFolder = join(folder, "tls");
  const keep = async (): Promise<void> => void keepCertificates(tlsFolder, Date.now());
  await keep();
  resources.use(every(renewCheckMs, keep, logTo(onLine)));
  const credentials =
    options.credentials ?? resources.use(openGrpcCredentials(grpcFilesIn(tlsFolder, "admin"), logTo(onLine)));

  say("starting services");
  const places = await claimPlaces(state);
  const demo = needsDemo(options) ? resources.use(await startService(planDemo(options, places))) : undefined;
  const catalog = await provideCatalog(options, state, places);
  const plans = planServices({ options, state, places, logins, stores, tlsFolder, catalogFile: catalog.file });
  const authQuota = resources.use(await startService(plans["auth-quota"]));
  const billing = resources.use(await startService(plans.billing));
  const videoTask = resources.use(await startService(plans["video-task"]));
  const relay = resources.use(await startService(plans.relay));
  const addresses = addressesOf(places);
  const files = grpcFilesIn(tlsFolder, "console");
  const neighbours = {
    addresses,
    databaseUrl: logins.console,
    folder,
    state,
    environment: { ...environment, ...files },
  };
  const site = options.hasConsole
    ? resources.use(await startConsole({ ...neighbours, onLine: (line) => onLine("console", line) }))
    : undefined;
  const all = [...(demo ? [demo] : []), authQuota, billing, relay, videoTask, ...(site ? [site] : [])];
  for (const service of all) await service.ready();
  if (options.areRestarted) for (const service of all) service.keepAlive(say);

  const { postgres: DATABASE_OWNER_URL, nats: NATS_URL } = stores.urls;
  const forBackups = { DATABASE_OWNER_URL, NATS_URL, CATALOG_FILE: catalog.file };
  await tell(join(folder, "addresses.json"), { ...addresses, ...grpcFilesIn(tlsFolder, "admin"), ...forBackups });
  const seeded = { authQuota: addresses.authQuotaAddress, billing: addresses.billingAddress };
  state.key = await seed(seeded, state, credentials);
  await saveState(folder, state);
  const owned = resources.move();
  return {
    services: { relay, authQuota, billing, videoTask },
    demo,
    console: site && { url: site.url, bootstrapToken: state.consoleToken },
    stores,
    logins,
    tlsFolder,
    credentials,
    addresses,
    catalogFile: catalog.file,
    isCatalogEdited: catalog.isEdited,
    accountId: seededAccountId,
    key: state.key,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function tell(file: string, told: object): Promise<void> {
  await writeFile(file, `${JSON.stringify(told, null, 2)}\n`);
  // It has the stores' passwords, and may have been made by a version that wrote none.
  await chmod(file, 0o600);
}

async function migrateAll(ownerUrl: string, state: LocalState, log: Logger): Promise<ServiceLogins> {
  await migrateSchemas(ownerUrl, log);
  return ensureLogins(ownerUrl, state);
}

function logTo(onLine: StackOptions["onLine"]): Logger {
  const write = (chunk: Buffer, _encoding: unknown, done: () => void): void => {
    onLine("local", chunk.toString().trimEnd());
    done();
  };
  return createLog("local", "warn", new Writable({ write }));
}

type ServiceAddress = { host: string; port: number; opsPort: number };
/** The demo upstream is one process; its videos answer at a port of their own. */
type ServiceAddresses = Record<ServiceName | "relay-grpc" | "demo" | "demo-videos", ServiceAddress>;

async function claimPlaces(state: LocalState): Promise<ServiceAddresses> {
  const claim = async (name: string): Promise<ServiceAddress> => ({
    host: loopback,
    port: await claimPort(state, name),
    opsPort: await claimPort(state, `${name}-ops`),
  });
  return {
    relay: await claim("relay"),
    "relay-grpc": await claim("relay-grpc"),
    "auth-quota": await claim("auth-quota"),
    billing: await claim("billing"),
    "video-task": await claim("video-task"),
    demo: await claim("demo"),
    "demo-videos": await claim("demo-videos"),
  };
}

function addressesOf(places: ServiceAddresses): Addresses {
  const opsUrl = (name: ServiceName): string => `http://${loopback}:${places[name].opsPort}`;
  return {
    relayUrl: `http://${loopback}:${places.relay.port}`,
    relayAddress: `${loopback}:${places["relay-grpc"].port}`,
    authQuotaAddress: `${loopback}:${places["auth-quota"].port}`,
    billingAddress: `${loopback}:${places.billing.port}`,
    videoTaskAddress: `${loopback}:${places["video-task"].port}`,
    opsUrls: {
      relay: opsUrl("relay"),
      "auth-quota": opsUrl("auth-quota"),
      billing: opsUrl("billing"),
      "video-task": opsUrl("video-task"),
    },
  };
}

function needsDemo({ catalog, environment }: StackOptions): boolean {
  return catalog === undefined && !hasProviderKey(environment);
}

function demoUrlsOf(places: ServiceAddresses): DemoUrls {
  const urlOf = ({ host, port }: ServiceAddress): string => `http://${host}:${port}`;
  return { url: urlOf(places.demo), videosUrl: urlOf(places["demo-videos"]) };
}

function planDemo({ environment, onLine }: StackOptions, places: ServiceAddresses): ServicePlan {
  const { url } = demoUrlsOf(places);
  const ports = { PORT: String(places.demo.port), VIDEOS_PORT: String(places["demo-videos"].port) };
  return {
    name: "demo",
    url,
    opsUrl: url,
    entry: join(import.meta.dirname, "demo-upstream.ts"),
    environment: { ...environment, HOST: loopback, ...ports },
    onLine: (line) => onLine("demo", line),
    stopGraceMs: 5_000,
  };
}

async function provideCatalog(options: StackOptions, state: LocalState, places: ServiceAddresses) {
  const file = join(options.folder, "catalog.yaml");
  if (options.catalog !== undefined) {
    await writeFile(file, options.catalog);
    return { file, isEdited: false };
  }
  const text = catalogFor(options.environment, demoUrlsOf(places));
  const { hash, isEdited } = await writeCatalog(file, text, state.catalogHash);
  state.catalogHash = hash;
  return { file, isEdited };
}

type PlanInput = {
  options: StackOptions;
  state: LocalState;
  places: ServiceAddresses;
  logins: ServiceLogins;
  stores: LocalStores;
  tlsFolder: string;
  catalogFile: string;
};

function planServices(input: PlanInput): Record<ServiceName, ServicePlan> {
  const { options, places, logins, stores, tlsFolder, catalogFile } = input;
  const { authQuotaAddress, billingAddress, videoTaskAddress, relayUrl, opsUrls } = addressesOf(places);
  const { natsUrls, redisUrl } = stores;
  const plan = (name: ServiceName, url: string, variables: Record<string, string>): ServicePlan => {
    const ops = { OPS_HOST: loopback, OPS_PORT: String(places[name].opsPort) };
    const told = options.reroute?.(name, variables) ?? variables;
    const own = { ...ops, ...told, ...options.serviceEnvironment?.[name] };
    const environment = { LOG_LEVEL: "info", DRAIN_MS: "15000", ...options.environment, ...own };
    return {
      name,
      url,
      opsUrl: opsUrls[name],
      entry: join(root, "services", name, "main.ts"),
      environment,
      onLine: (line) => options.onLine(name, line),
      stopGraceMs: Number(environment.DRAIN_MS) + 5_000,
    };
  };
  const grpc = (name: ServiceName, port = places[name].port) => ({
    GRPC_HOST: loopback,
    GRPC_PORT: String(port),
    ...grpcFilesIn(tlsFolder, name),
  });
  return {
    "auth-quota": plan("auth-quota", authQuotaAddress, {
      ...grpc("auth-quota"),
      DATABASE_URL: logins.authQuota,
      REDIS_URL: redisUrl,
      BILLING_ADDRESS: billingAddress,
      HOLD_PROOF_KEYS: input.state.holdProofKeys,
    }),
    billing: plan("billing", billingAddress, {
      ...grpc("billing"),
      DATABASE_URL: logins.billing,
      NATS_URL: natsUrls.billing,
      AUTH_QUOTA_ADDRESS: authQuotaAddress,
      HOLD_PROOF_KEYS: input.state.holdProofKeys,
    }),
    "video-task": plan("video-task", videoTaskAddress, {
      ...grpc("video-task"),
      DATABASE_URL: logins.videoTask,
      NATS_URL: natsUrls["video-task"],
      BILLING_ADDRESS: billingAddress,
      AUTH_QUOTA_ADDRESS: authQuotaAddress,
      CATALOG_FILE: catalogFile,
      DEMO_API_KEY: "demo",
    }),
    relay: plan("relay", relayUrl, {
      ...grpc("relay", places["relay-grpc"].port),
      HTTP_HOST: loopback,
      HTTP_PORT: String(places.relay.port),
      AUTH_QUOTA_ADDRESS: authQuotaAddress,
      VIDEO_TASK_ADDRESS: videoTaskAddress,
      NATS_URL: natsUrls.relay,
      SPOOL_DIR: join(options.folder, "spool"),
      CATALOG_FILE: catalogFile,
      ALLOW_PLAIN_HTTP: "loopback",
      DEMO_API_KEY: "demo",
    }),
  };
}
