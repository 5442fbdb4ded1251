import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { stringify } from "yaml";
import { behaviourText } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall, type Reply, ridOf } from "./ask.ts";
import { type CatalogSections, modelOn, testCatalog } from "./catalog.ts";
import { costOf, unitsOf } from "./charge.ts";
import { accessibilityProblems } from "./console/accessibility.ts";
import { needsBrowser } from "./console/browser.ts";
import { cellsOf, figureOf } from "./console/figures.ts";
import {
  credit,
  inviteInto,
  makeAccount,
  noticeOf,
  password,
  type Person,
  press,
  seeHeading,
  signIn,
} from "./console/people.ts";
import { type Site, startSite } from "./console/site.ts";
import { videoCatalog } from "./video-catalog.ts";
import { makeVideo } from "./videos.ts";

describe("the console, clicked through by operators and by strangers", needsBrowser, () => {
  let site: Site;
  let owner: Person;
  let stranger: Person;
  let secret: string;
  let keyId: string;
  let rid: string;
  const accountId = "acme";
  before(async () => {
    // Until a catalog is applied the file's is in force.
    const stored = { CATALOG_SOURCE: "stored" };
    site = await startSite({ catalog: videoCatalog, serviceEnvironment: { relay: stored, "video-task": stored } });
    const { browser, operator, world } = site;
    await makeAccount(operator, "Acme", accountId);
    await credit(operator, accountId, "10");
    owner = await inviteInto(browser, operator, accountId);
    await makeAccount(operator, "Other", "other");
    stranger = await inviteInto(browser, operator, "other");
    ({ secret, keyId } = await world.createKey(accountId, { name: "Website" }));
    rid = ridOf(await call());
    await world.untilBooked(accountId, rid);
  });
  after(() => site?.[Symbol.asyncDispose]());

  const call = (): Promise<Reply> => makeCall(site.world.relayUrl, secret, { side: chat, isStream: false });
  const untilStatus = (status: number): Promise<boolean> =>
    until(`calls are answered with ${status}`, async () => (await call()).status === status);

  async function search(page: Page, text: string): Promise<void> {
    await page.goto("/operator/search");
    await page.getByLabel("Search for").fill(text);
    await press(page, "Search");
  }

  test("who sets up the console of `npm start` owns its account: makes a key and asks in the playground", async () => {
    const { page } = site.operator;
    await page.goto("/accounts/acct_local/keys/new");
    await page.getByLabel("Name").fill("Mine");
    await press(page, "Create key");
    await page.goto("/accounts/acct_local/playground");
    await page.getByLabel("Model").fill("test-model");
    await page.getByLabel("Message", { exact: true }).fill(behaviourText({ text: "Nice to meet you." }));
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Nice to meet you.", { exact: true }).waitFor();
    site.browser.check();
  });

  test("search finds an account by its id, a key by its beginning, and a call by its request id", async () => {
    const { page } = site.operator;
    await search(page, accountId);
    assert.deepEqual(await cellsOf(page, "Acme"), ["acme"]);
    await search(page, secret);
    assert.ok(!(await page.content()).includes(secret), "a whole secret that was pasted is not shown");
    const [begin = "", id] = await cellsOf(page, "Website");
    assert.ok(secret.startsWith(begin.slice(0, -1)), begin);
    assert.equal(id, keyId);
    await search(page, rid);
    await page.getByRole("link", { name: rid }).click();
    await seeHeading(page, "Call");
    assert.equal(await figureOf(page, "Upstream"), "fake");
    site.browser.check();
  });

  test("the maintenance switch closes the API with 503 and opens it again", async () => {
    const { page } = site.operator;
    await page.goto("/operator/maintenance");
    await page.getByRole("link", { name: "Close the API…" }).click();
    await press(page, "Close the API");
    await untilStatus(503);
    await page.goto("/operator/installation");
    await page.getByText("The API is closed for maintenance").waitFor();
    await page.goto("/operator/maintenance");
    await page.getByRole("link", { name: "Open the API…" }).click();
    await press(page, "Open the API");
    await untilStatus(200);
    site.browser.check();
  });

  test("a version of the catalog is rolled back to by one click, and calls are charged by it again", async () => {
    const { operator, world } = site;
    const { page } = operator;
    const catalogAt = (version: string): string => {
      const model = modelOn("fake", { price: { version, input_tokens: version, output_tokens: version } });
      return testCatalog(world.fake.url, { models: { "applied-model": model } });
    };
    for (const [base, version] of ["1", "2"].entries()) {
      const words = { author: "a colleague", note: `<b>at ${version}</b>` };
      await world.authQuota.applyCatalog({ content: catalogAt(version), baseVersion: BigInt(base), ...words });
    }
    const priceOfCall = async (): Promise<string> => {
      const reply = await makeCall(world.relayUrl, secret, { side: chat, model: "applied-model" });
      return reply.status === 200 ? (await world.untilBooked(accountId, reply.rid)).usage.priceVersion : reply.text;
    };
    await until("version 2 is in force", async () => (await priceOfCall()) === "2");

    await page.goto("/operator/installation/catalog");
    await page.getByRole("link", { name: "Versions" }).click();
    await page.getByText("<b>at 2</b>").waitFor();
    await page.getByRole("link", { name: "Compare version 1" }).first().click();
    await page.getByRole("region", { name: "Lines that differ" }).waitFor();
    assert.deepEqual(await accessibilityProblems(page), []);
    await page.getByLabel("Note").fill("too dear");
    await press(page, "Roll back to version 1");
    await page.getByRole("alert").getByText("This is not your password").waitFor();
    await page.getByLabel("Your password").fill(password);
    await press(page, "Roll back to version 1");
    assert.match(await noticeOf(page), /Version 3 is applied/);
    await until("version 1 is in force again", async () => (await priceOfCall()) === "1");
    const { applied } = await world.authQuota.listCatalogs({});
    const [newest] = applied;
    const told = [newest?.version, newest?.author, newest?.via, newest?.note];
    assert.deepEqual(told, [3n, operator.email, "console", "back to version 1: too dear"]);
    site.browser.check();
  });

  test("an upstream of the form is applied by its operator's password: its model answers and is charged, a video of the same version, too", async () => {
    const { operator, world } = site;
    const { page } = operator;
    const { upstreams, models } = JSON.parse(videoCatalog(world.fake.url, world.videos.url)) as CatalogSections;
    const filmModel = { ...models["sora-model"], price: { version: "film-1", media_ms: "2" } };
    const content = stringify({ upstreams, models: { ...models, "applied-film": filmModel } });
    const baseVersion = (await world.authQuota.listCatalogs({})).applied[0]?.version ?? 0n;
    const { version } = await world.authQuota.applyCatalog({ content, baseVersion, author: "a colleague", note: "" });
    await until("the relay follows it", async () => {
      await page.goto("/operator/installation/catalog/versions");
      return (await cellsOf(page, `${version} in force`)).length > 0;
    });

    await page.goto("/operator/installation/catalog/add");
    const typed = {
      "Name of the upstream": "second",
      Address: world.fake.url,
      "Environment variable of the relays that holds the credential": "DEMO_API_KEY",
      "Who makes the models": "somebody",
      "Name of model 1": "form-model",
      "Most tokens that model 1 reads": "1000",
      "Most tokens that model 1 writes": "100",
      "Price of input tokens, USD per million, model 1": "1",
      "Price of output tokens, USD per million, model 1": "2",
    };
    for (const [label, text] of Object.entries(typed)) await page.getByLabel(label).fill(text);
    await page.getByLabel("Format that it speaks").selectOption("openai-chat");
    await press(page, "Preview");
    await page.getByText("The file is valid.").waitFor();
    assert.deepEqual(await accessibilityProblems(page), []);
    await press(page, "Apply");
    await page.getByRole("alert").getByText("This is not your password").waitFor();
    await page.getByLabel("Your password").fill(password);
    await press(page, "Apply");
    assert.match(await noticeOf(page), new RegExp(`Version ${version + 1n} is applied`));
    let reply: Reply | undefined;
    await until("the new model answers", async () => {
      reply = await makeCall(world.relayUrl, secret, { side: chat, model: "form-model" });
      return reply.status === 200;
    });
    const line = await world.untilBooked(accountId, reply?.rid ?? "");
    assert.equal(
      -line.amountNanos,
      costOf(unitsOf(line), { inputTokens: 1_000_000_000n, outputTokens: 2_000_000_000n }),
    );
    const customer = { accountId, keyId, secret, relayUrl: world.relayUrl };
    const { ended, rid: filmRid } = await makeVideo(world, customer, { model: "applied-film", more: { seconds: "8" } });
    assert.equal(ended.status, "completed");
    const film = await world.untilBooked(accountId, filmRid);
    assert.deepEqual([film.usage.priceVersion, film.amountNanos], ["film-1", -16_000_000n]);
    site.browser.check();
  });

  test("the keys of a suspended account are refused with 401 until it is activated", async () => {
    const { page } = site.operator;
    await page.goto(`/operator/accounts/${accountId}`);
    await press(page, "Suspend account");
    assert.match(await noticeOf(page), /is suspended/);
    await untilStatus(401);
    await owner.page.goto(`/accounts/${accountId}`);
    await owner.page.getByText("This account is suspended").waitFor();
    await press(page, "Activate account");
    await untilStatus(200);
    site.browser.check();
  });

  test("the installation page tells each upstream's circuit, and the report of the day finds nothing unexplained", async () => {
    const { page } = site.operator;
    await page.goto("/operator/installation");
    assert.deepEqual((await cellsOf(page, "fake"))[2], "in use");
    await page.goto("/operator/reports");
    const day = new Date().toISOString().slice(0, 10);
    await page.getByLabel("Day (UTC) of the report").fill(day);
    await press(page, "Create a daily report");
    assert.match(await noticeOf(page), new RegExp(`The report of ${day} is made and kept`));
    assert.match(await page.locator("main").innerText(), /Unexplained: 0\.00 USD/);
    site.browser.check();
  });

  test("the audit log says who did what", async () => {
    const { page, email } = site.operator;
    await page.goto("/operator/audit?action=maintenance.begin");
    const rows = await page.locator("main tbody tr").allInnerTexts();
    assert.deepEqual(
      rows.map((row) => row.split("\t").filter((cell) => ["asked", "done", email].includes(cell))),
      [
        [email, "done"],
        [email, "asked"],
      ],
    );
    await page.goto(`/operator/audit?account=${accountId}&action=account.suspend`);
    assert.ok((await page.locator("main tbody tr").count()) > 0);
    site.browser.check();
  });

  test("to the owner of another account the pages of this one are not there", async () => {
    const { page } = stranger;
    const paths = ["", "/keys", `/keys/${keyId}`, "/usage", `/calls/${rid}`, "/ledger", "/top-up", "/playground"];
    const others = ["/members", "/videos", "/models", "/quick-start", "/usage.csv", "/ledger.csv"];
    for (const path of [...paths, ...others]) {
      const answer = await page.goto(`/accounts/${accountId}${path}`);
      assert.equal(answer?.status(), 404, path);
    }
    const own = await page.goto(`/accounts/other/calls/${rid}`);
    assert.equal(own?.status(), 404);
    assert.ok(!(await page.content()).includes("Website"));
    for (const path of ["/operator/accounts", "/operator/audit", "/operator/installation", "/operator/search"]) {
      assert.equal((await page.goto(path))?.status(), 403, path);
    }
    site.browser.check();
  });

  test("a session that somebody planted before the sign-in is not the one after it", async () => {
    const { browser, world } = site;
    const sessionOf = async (page: Page) =>
      (await page.context().cookies()).find(({ name }) => name.endsWith("session"));
    const { name = "" } = (await sessionOf(owner.page)) ?? {};
    const planted = { name, value: "p".repeat(43), url: world.stack.console?.url ?? "" };
    const [victim, attacker] = [await browser.open(), await browser.open()];
    await victim.context().addCookies([planted]);
    await signIn(victim, owner.email);
    await seeHeading(victim, "Acme");
    assert.notEqual((await sessionOf(victim))?.value, planted.value);
    await attacker.context().addCookies([planted]);
    await attacker.goto(`/accounts/${accountId}`);
    await seeHeading(attacker, "Sign in");
    browser.check();
  });
});
