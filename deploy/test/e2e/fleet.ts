import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Browser, createBrowser } from "../../../services/console/testing/browser.ts";
import { freePort } from "#shared/testing/free-port.ts";
import { grpcFilesIn } from "../../tools/certificates/folder.ts";
import { bootstrapTokenOf } from "../../tools/local/console.ts";
import { type Service, startService } from "../../tools/local/service.ts";
import type { ServiceName } from "../../tools/local/stack.ts";
import { type CatalogSections, catalogText, modelOn, upstreamAt } from "./catalog.ts";
import { loadCatalog } from "./load-models.ts";
import { withVideos } from "./video-catalog.ts";
import { startWorld, type World } from "./world.ts";

export type FleetName = ServiceName | "console";

export const fleetNames: readonly FleetName[] = ["auth-quota", "billing", "video-task", "relay", "console"];

/** Where a process of a service answers, and what it is told. */
export type ReplicaAddress = { url: string; opsUrl: string; environment: Record<string, string> };

/** The system, which runs with one process of each service but the console, and two places for each. */
export type Fleet = AsyncDisposable & {
  world: World;
  places: Record<FleetName, readonly [ReplicaAddress, ReplicaAddress]>;
};

const host = "127.0.0.1";
const ownRoot = join(import.meta.dirname, "../../..");

// The variables by which services are told of each other, and who answers there.
const answeredBy: Record<string, ServiceName> = {
  AUTH_QUOTA_ADDRESS: "auth-quota",
  BILLING_ADDRESS: "billing",
  VIDEO_TASK_ADDRESS: "video-task",
};

const variables: Record<ServiceName, Record<string, string>> = {
  relay: {},
  "auth-quota": { IP_REQUESTS_PER_MINUTE: "1000000", ACCOUNT_REQUESTS_PER_MINUTE: "100000" },
  billing: { OUTBOX_AGE_MS: "2000", USAGE_ACK_WAIT_MS: "3000" },
  "video-task": { POLL_INTERVAL_MS: "50", CONFIRM_MS: "100" },
};

/** The models of the load, one of them behind an upstream that speaks the other format, and models of videos. */
function catalogOf(fakeUrl: string, videosUrl: string): string {
  const { upstreams, models } = JSON.parse(loadCatalog(fakeUrl)) as CatalogSections;
  const converted = modelOn("other", { upstreams: [{ name: "other", model: "cheap-model" }] });
  const other = upstreamAt(fakeUrl, { dialects: ["anthropic-messages"] });
  const all = { upstreams: { ...upstreams, other }, models: { ...models, "converted-model": converted } };
  return withVideos(catalogText(all), videosUrl);
}

/** Starts the stores and the services of the stack; with `areTwo` every process knows both places of each service. */
export async function startFleet({ areTwo }: { areTwo: boolean }): Promise<Fleet> {
  await using resources = new AsyncDisposableStack();
  const seconds: Record<string, number> = {};
  for (const name of Object.keys(variables)) seconds[name] = await freePort();
  const told: Record<string, Record<string, string>> = {};
  const reroute = (name: ServiceName, own: Record<string, string>): Record<string, string> => {
    const changed = Object.entries(own).map(([key, value]) => {
      const neighbour = answeredBy[key];
      return [key, areTwo && neighbour ? `ipv4:${value},${host}:${seconds[neighbour]}` : value];
    });
    return (told[name] = Object.fromEntries(changed) as Record<string, string>);
  };
  const fake = { receivedLimit: 1, truthLimit: 1_000_000 };
  const world = resources.use(await startWorld({ catalog: catalogOf, fake, serviceEnvironment: variables, reroute }));
  const folder = dirname(world.stack.catalogFile);
  const pairOf = async (name: ServiceName): Promise<[ReplicaAddress, ReplicaAddress]> => {
    const first = firstPlace(name, world, told[name] ?? {});
    return [first, await secondPlace(name, first, seconds[name] ?? 0, folder)];
  };
  const relay = await pairOf("relay");
  const neighbours = { ...told["video-task"], ...told["relay"] };
  const relays = (areTwo ? relay : [relay[0]]).map(({ environment }) => `${host}:${environment["GRPC_PORT"]}`);
  const toConsole = await tellConsole(world, neighbours, relays.join(","));
  const places: Fleet["places"] = {
    relay,
    "auth-quota": await pairOf("auth-quota"),
    billing: await pairOf("billing"),
    "video-task": await pairOf("video-task"),
    console: [await consolePlace(toConsole), await consolePlace(toConsole)],
  };
  const owned = resources.move();
  return { world, places, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function firstPlace(name: ServiceName, { stack }: World, told: Record<string, string>): ReplicaAddress {
  const opsUrl = stack.addresses.opsUrls[name];
  const environment = { ...told, ...variables[name], OPS_PORT: new URL(opsUrl).port };
  const url = name === "relay" ? stack.addresses.relayUrl : `${host}:${told["GRPC_PORT"]}`;
  return { url, opsUrl, environment };
}

async function secondPlace(
  name: ServiceName,
  first: ReplicaAddress,
  port: number,
  folder: string,
): Promise<ReplicaAddress> {
  const opsPort = await freePort();
  const environment: Record<string, string> = { ...first.environment, OPS_PORT: String(opsPort) };
  if (name === "relay") {
    const own = {
      HTTP_PORT: String(port),
      GRPC_PORT: String(await freePort()),
      SPOOL_DIR: join(folder, "second-spool"),
    };
    Object.assign(environment, own);
  } else environment["GRPC_PORT"] = String(port);
  const url = name === "relay" ? `http://${host}:${port}` : `${host}:${port}`;
  return { url, opsUrl: `http://${host}:${opsPort}`, environment };
}

/** What both consoles are told. */
async function tellConsole(
  { stack }: World,
  { AUTH_QUOTA_ADDRESS = "", BILLING_ADDRESS = "", VIDEO_TASK_ADDRESS = "" }: Record<string, string>,
  relayAddresses: string,
): Promise<Record<string, string>> {
  const keyFile = join(dirname(stack.catalogFile), "fleet-secrets.key");
  await writeFile(keyFile, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  return {
    DATABASE_URL: stack.logins.console,
    ...grpcFilesIn(stack.tlsFolder, "console"),
    AUTH_QUOTA_ADDRESS,
    BILLING_ADDRESS,
    VIDEO_TASK_ADDRESS,
    RELAY_ADDRESSES: relayAddresses,
    API_URL: stack.addresses.relayUrl,
    PUBLIC_URL: "https://console.example",
    SECRETS_KEY_FILE: keyFile,
    TRUSTED_PROXIES: host,
    GUESSES_PER_MINUTE: "1000",
  };
}

async function consolePlace(told: Record<string, string>): Promise<ReplicaAddress> {
  const [port, opsPort] = [await freePort(), await freePort()];
  const environment = { ...told, HTTP_PORT: String(port), OPS_PORT: String(opsPort) };
  return { url: `http://${host}:${port}`, opsUrl: `http://${host}:${opsPort}`, environment };
}

/** Starts a service at a place, from another folder of the project where one is given; waits until it is ready. */
export async function startAt(
  name: FleetName,
  { url, opsUrl, environment }: ReplicaAddress,
  { root = ownRoot, onLine = () => undefined }: { root?: string; onLine?: (line: string) => void } = {},
): Promise<Service> {
  const { PATH } = process.env;
  const service = await startService({
    name,
    url,
    opsUrl,
    entry: join(root, "services", name, "main.ts"),
    environment: { PATH, LOG_LEVEL: "info", DRAIN_MS: "5000", ...environment },
    onLine,
    stopGraceMs: 10_000,
  });
  await service.ready();
  return service;
}

const email = "operator@example.org";
const password = "correct horse battery staple";

/** Starts a console at a place and makes its first operator, who is signed in. */
export async function startFirstConsole(
  place: ReplicaAddress,
  root?: string,
): Promise<{ service: Service; browser: Browser }> {
  const token = Promise.withResolvers<string>();
  const onLine = (line: string): void => {
    const told = bootstrapTokenOf(line);
    if (told !== undefined) token.resolve(told);
  };
  const service = await startAt("console", place, { ...(root !== undefined && { root }), onLine });
  const browser = browserAt(place);
  const passwords = { "new-password": password, "repeat-password": password };
  const done = await browser.fill("/setup", { token: await token.promise, email, ...passwords });
  if (done.location !== "/profile/second-factor") throw new Error(`the console is not set up: ${done.text}`);
  return { service, browser };
}

/** A browser at a place with the session of another one. */
export function browserAt({ url }: Pick<ReplicaAddress, "url">, signedIn?: Browser): Browser {
  const browser = createBrowser(Number(new URL(url).port));
  for (const [name, value] of signedIn?.cookies ?? []) browser.cookies.set(name, value);
  return browser;
}
