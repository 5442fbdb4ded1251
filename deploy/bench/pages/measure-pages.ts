import type { Page } from "playwright-core";
import { createLog } from "#shared/process/log.ts";
import { createPool, type Pool } from "#shared/stores/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { moveFence, sumStep } from "../../../services/billing/store/make-sums.ts";
import { readLines } from "../../../services/billing/store/lines.ts";
import type { Deps } from "../../../services/console/deps.ts";
import { allRoutes } from "../../../services/console/routes.ts";
import { chat, makeCall } from "../../test/e2e/ask.ts";
import { testCatalog } from "../../test/e2e/catalog.ts";
import { inviteInto } from "../../test/e2e/console/people.ts";
import { pathOf, seed } from "../../test/e2e/console/places.ts";
import { type Site, startSite } from "../../test/e2e/console/site.ts";
import { withVideos } from "../../test/e2e/video-catalog.ts";
import { migrateSchemas } from "../../tools/migrate/schemas.ts";
import { fillLedger, largeAccount, type LedgerSize } from "../books/fill-ledger.ts";
import { readProcessUse, readTreeCpuUs } from "../process-use.ts";
import { median } from "../statistics.ts";
import { renderTable } from "../table.ts";
import { fillRest } from "./fill-rest.ts";

const runs = 7;
const maxPageMs = 100;
const restSize = { keys: 1_000, auditEntries: 500_000, tasks: 100_000, refusals: 500_000 };

/**
 * How long a page takes from request to its last byte, a median and the longest; what PostgreSQL and the services work
 * for it, which other work on the machine changes little.
 */
type PageFigure = { page: string; ms: number; longestMs: number; cpuMs: number; kilobytes: number };

/** Makes a large installation, and measures every page of its console for its largest account and for operators. */
export async function measurePages(size: LedgerSize, say: (text: string) => void): Promise<PageFigure[]> {
  await using stores = await startStores({ postgres: true });
  const ownerUrl = await stores.postgres.createDatabase();
  await fillDatabase(ownerUrl, size, say);
  return await measureOn(ownerUrl, stores.postgres.pid, say);
}

/** Measures the pages on a filled database. */
async function measureOn(ownerUrl: string, postgresPid: number, say: (text: string) => void) {
  await using installation = await startInstallation(ownerUrl, postgresPid);
  const { pool, pages } = installation;
  const oneRead = await measure(() => readOnce(pool), installation);
  const figures: PageFigure[] = [];
  for (const { page, url, cookie } of pages) {
    const look = () => (isExport(page) ? loadBeginning(url, cookie) : load(url, cookie));
    const { bytes, status } = await look();
    if (status >= 400) throw new Error(`${page} answers ${status}`);
    const taken = await measure(look, installation);
    figures.push({ page, ...taken, kilobytes: bytes / 1_000 });
  }
  say(tableOf(figures, oneRead));
  if (figures.some(({ ms }) => ms > maxPageMs)) process.exitCode = 1;
  return figures;
}

type Installation = AsyncDisposable & {
  pages: Measured[];
  /** The ledger, as its owner. */
  pool: Pool;
  readCpuUs: () => number;
  site: Site;
};

/** A database with everything in it that grows. */
async function fillDatabase(ownerUrl: string, size: LedgerSize, say: (text: string) => void): Promise<void> {
  await migrateSchemas(ownerUrl, createLog("bench", "silent"));
  await fillLedger(ownerUrl, size, say);
  await fillRest(ownerUrl, { ...restSize, accounts: size.accounts }, say);
  const pool = createPool(ownerUrl, "bench", () => undefined);
  await moveFence(pool, Date.now());
  while ((await sumStep(pool)) !== "idle");
  await pool.query("VACUUM ANALYZE billing.hour_sum, billing.day_sum, billing.route_sum, billing.account_sum");
  await pool.end();
  say("summed up the ledger");
}

/** All services and their console on it. */
async function startInstallation(ownerUrl: string, postgresPid: number): Promise<Installation> {
  await using resources = new AsyncDisposableStack();
  const pool = createPool(ownerUrl, "bench", () => undefined);
  resources.defer(() => pool.end());
  const catalog = (fakeUrl: string, videosUrl: string): string => withVideos(testCatalog(fakeUrl), videosUrl);
  const site = resources.use(await startSite({ catalog, given: { postgres: ownerUrl } }));
  const pages = await pagesOf(site);
  // It is done, and what it works is not the pages' cost.
  await site.browser[Symbol.asyncDispose]();
  const owned = resources.move();
  return {
    pages,
    pool,
    // Services are children of this process, as is PostgreSQL, whose own children are one per connection.
    readCpuUs: () => readTreeCpuUs(process.pid) - readProcessUse(process.pid).cpuUs + readTreeCpuUs(postgresPid),
    site,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Taken = Pick<PageFigure, "ms" | "longestMs" | "cpuMs">;

async function measure(work: () => Promise<unknown>, { readCpuUs }: Installation): Promise<Taken> {
  await work();
  const taken: number[] = [];
  const cpuBeforeUs = readCpuUs();
  for (let run = 0; run < runs; run += 1) {
    const startedMs = performance.now();
    await work();
    taken.push(performance.now() - startedMs);
  }
  const cpuMs = (readCpuUs() - cpuBeforeUs) / 1_000 / runs;
  return { ms: median(taken), longestMs: Math.max(...taken), cpuMs };
}

async function readOnce(pool: Pool): Promise<void> {
  const all = { before: undefined, call: undefined, kind: undefined };
  await readLines(pool, { accountId: largeAccount, limit: 20, newestMs: Date.now(), ...all });
}

type Measured = { page: string; url: URL; cookie: string };

// Documents take as long as they are; the rest are pages of moments that are over here.
const isLeftOut = (url: string): boolean =>
  ["/", "/setup", "/sign-in/oidc/callback"].includes(url) || /\.pdf$|:file$|\/file$|:lineId$/.test(url);

// They take as long as they are: how long somebody waits for their beginning.
const isExport = (page: string): boolean => page.endsWith(".csv");

// What asks the books for more than the page as it opens does.
const wider: readonly string[] = [
  "/accounts/:accountId/activity?model=a-model-that-is-none",
  "/accounts/:accountId/usage?range=90",
  "/accounts/:accountId/usage?group=key",
  "/accounts/:accountId/usage?group=tag",
  "/operator/business?group=account",
  "/operator/business?group=model",
  "/operator/business?group=upstream",
  "/operator/accounts?q=Customer 77",
  "/operator/accounts?view=negative",
  "/operator/search?q=Customer 77",
  "/operator/audit?action=key.change",
];

// A customer with a call a day: each of its lines is on another day of the ledger.
const smallAccount = "acct_7920";
const ofSmallAccount: readonly string[] = ["", "/activity", "/ledger", "/usage"];

async function pagesOf(site: Site): Promise<Measured[]> {
  const { world, browser, operator } = site;
  await world.billing.credit({ accountId: largeAccount, amountNanos: 10_000_000_000n, paymentId: "bench" });
  const owner = await inviteInto(browser, operator, largeAccount);
  const customer = await world.createKey(largeAccount, { name: "Website" });
  // A new hot store is told of all accounts and keys first.
  const call = () => makeCall(world.relayUrl, customer.secret, { side: chat, isStream: false });
  await until("calls are served", async () => (await call()).status === 200, 120_000);
  const seeded = await seed(site, owner, customer, "test-model");
  const cookies = { owner: await cookieOf(owner.page), operator: await cookieOf(operator.page) };
  const urlOf = (path: string): URL => new URL(path, world.stack.console?.url);
  const routes = allRoutes({} as Deps).filter(({ method, access, url }) => {
    return method === "GET" && access !== "half" && !isLeftOut(url);
  });
  const publicUrls = new Set(routes.filter(({ access }) => access === "everybody").map(({ url }) => url));
  const all = [...routes.map(({ url }) => url), ...wider].map((page) => {
    const [pattern = "", query] = page.split("?");
    const path = pathOf(pattern, seeded) + (query === undefined ? "" : `?${query}`);
    const visitor = page.startsWith("/operator") ? cookies.operator : cookies.owner;
    return { page, url: urlOf(path), cookie: publicUrls.has(page) ? "" : visitor };
  });
  const small = ofSmallAccount.map((rest) => {
    return {
      page: `${rest || "/"}, few calls`,
      url: urlOf(`/accounts/${smallAccount}${rest}`),
      cookie: cookies.operator,
    };
  });
  return [...all, ...small];
}

async function cookieOf(page: Page): Promise<string> {
  const cookies = await page.context().cookies();
  return cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
}

type Loaded = { bytes: number; status: number };

async function loadBeginning(url: URL, cookie: string): Promise<Loaded> {
  const answer = await fetch(url, { headers: { cookie }, redirect: "manual" });
  const reader = answer.body?.getReader();
  const first = await reader?.read();
  await reader?.cancel();
  return { bytes: first?.value?.byteLength ?? 0, status: answer.status };
}

async function load(url: URL, cookie: string): Promise<Loaded> {
  const answer = await fetch(url, { headers: { cookie }, redirect: "manual" });
  const { byteLength } = await answer.arrayBuffer();
  return { bytes: byteLength, status: answer.status };
}

function tableOf(figures: readonly PageFigure[], oneRead: Taken): string {
  const rows = figures
    .toSorted((a, b) => b.cpuMs - a.cpuMs)
    .map(({ page, ms, longestMs, cpuMs, kilobytes }) => [
      page,
      ms.toFixed(1),
      (ms / oneRead.ms).toFixed(1),
      longestMs.toFixed(1),
      cpuMs.toFixed(1),
      kilobytes.toFixed(0),
      ms <= maxPageMs ? "ok" : "MISSED",
    ]);
  const head = ["page", "ms", "times the indexed read", "longest", "CPU ms", "KB", `at most ${maxPageMs}`];
  return `20 lines by their index: ${oneRead.ms.toFixed(2)} ms\n${renderTable(head, rows)}`;
}
