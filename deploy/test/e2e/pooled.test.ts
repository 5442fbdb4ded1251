import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { findTool } from "#shared/testing/binaries.ts";
import { startPgbouncer } from "#shared/testing/pgbouncer.ts";
import { query } from "#shared/testing/postgres.ts";
import { startStores } from "#shared/testing/stores.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall, ridOf } from "./ask.ts";
import { needsBrowser } from "./console/browser.ts";
import { credit, makeAccount, noticeOf, press } from "./console/people.ts";
import { type Site, startSite } from "./console/site.ts";
import { videoCatalog } from "./video-catalog.ts";
import { makeVideo } from "./videos.ts";
import type { Customer } from "./world.ts";

const missing = findTool("pgbouncer") === undefined && "there is no pgbouncer: `npm test` installs it, or says how";

describe(
  "PostgreSQL behind pgbouncer in transaction mode",
  { ...needsBrowser, skip: missing || needsBrowser.skip },
  () => {
    const resources = new AsyncDisposableStack();
    let site: Site;
    let customer: Customer;
    /** As the superuser: through the pooler, and past it. */
    let pooledUrl: string;
    let directUrl: string;

    before(async () => {
      const { postgres } = resources.use(await startStores({ postgres: true }));
      directUrl = await postgres.createDatabase();
      pooledUrl = resources.use(await startPgbouncer(directUrl)).url;
      site = resources.use(
        await startSite({
          given: { postgres: pooledUrl },
          catalog: videoCatalog,
          serviceEnvironment: { billing: { RECONCILE_MS: "1000" } },
        }),
      );
      const accountId = await makeAccount(site.operator, "Acme", "acme");
      await credit(site.operator, accountId, "100");
      customer = await site.world.createKey(accountId);
    });
    after(() => resources.disposeAsync());

    test("calls, streams and videos are answered and booked", async () => {
      const { world } = site;
      const calls = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          makeCall(world.relayUrl, customer.secret, { side: chat, isStream: index % 2 === 0 }),
        ),
      );
      assert.deepEqual(new Set(calls.map(({ status }) => status)), new Set([200]));
      const { ended } = await makeVideo(world, { ...customer, relayUrl: world.relayUrl });
      assert.equal(ended.status, "completed");
      const lines = await world.untilSettled(customer.accountId, calls.length + 1);
      assert.equal(new Set(lines.map(({ rid }) => rid)).size, calls.length + 1);
    });

    test("the report of the day before is made by itself, that of today by the operator, and nothing is unexplained", async () => {
      const reports = "SELECT FROM billing.report WHERE day < (now() AT TIME ZONE 'UTC')::date";
      await until("a report is kept", async () => (await query(directUrl, reports)).rowCount === 1);
      const { page } = site.operator;
      await page.goto("/operator/reports");
      await page.getByLabel("Day (UTC) of the report").fill(new Date().toISOString().slice(0, 10));
      await press(page, "Create a daily report");
      assert.match(await noticeOf(page), /is made and kept/);
      assert.match(await page.locator("main").innerText(), /Unexplained: 0\.00 USD/);
    });

    test("the console shows accounts, money, calls and the installation", async () => {
      const { page } = site.operator;
      const { accountId } = customer;
      const call = await makeCall(site.world.relayUrl, customer.secret, { side: chat });
      await site.world.untilBooked(accountId, ridOf(call));
      const own = ["", "/keys", "/usage", "/ledger", "/members", "/videos", `/calls/${ridOf(call)}`];
      const operators = ["accounts", `accounts/${accountId}`, "installation", "audit", "reports", "quarantine"];
      const paths = [
        ...own.map((path) => `/accounts/${accountId}${path}`),
        ...operators.map((path) => `/operator/${path}`),
      ];
      for (const path of paths) assert.equal((await page.goto(path))?.status(), 200, path);
      site.browser.check();
    });

    test("every login's statements and transactions have their limits of time", async () => {
      const { authQuota, ...others } = site.world.stack.logins;
      const limitsOf = async (url: string): Promise<unknown[]> => {
        const limits = ["statement_timeout", "idle_in_transaction_session_timeout"];
        const settings = limits.map((name) => `current_setting('${name}') AS ${name}`).join();
        return Object.values((await query(url, `SELECT ${settings}`)).rows[0] as object);
      };
      assert.deepEqual(await limitsOf(authQuota), ["5s", "30s"]);
      for (const [name, url] of Object.entries(others)) assert.deepEqual(await limitsOf(url), ["30s", "30s"], name);
      await assert.rejects(query(authQuota, "SELECT pg_sleep(60)"), /canceling statement due to statement timeout/);
    });

    test("nothing of a session is left for the next one on its connection: no lock, no setting", async () => {
      const locks = "SELECT FROM pg_locks WHERE locktype = 'advisory'";
      await until("no lock is held", async () => (await query(directUrl, locks)).rowCount === 0);
      const paths = await Promise.all(
        Array.from({ length: 12 }, async () => (await query(pooledUrl, "SHOW search_path")).rows[0] as object),
      );
      assert.deepEqual([...new Set(paths.flatMap(Object.values))], ['"$user", public']);
    });
  },
);
