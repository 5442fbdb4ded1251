import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { Secret, TOTP } from "otpauth";
import type { Deps } from "../../../services/console/deps.ts";
import type { Route } from "../../../services/console/html/route.ts";
import { allRoutes } from "../../../services/console/routes.ts";
import { chat, makeCall } from "./ask.ts";
import { modelOn, testCatalog } from "./catalog.ts";
import { accessibilityProblems, checkAccessibility, type KnownControls, noControls } from "./console/accessibility.ts";
import { needsBrowser } from "./console/browser.ts";
import { enter, tabTo } from "./console/keyboard.ts";
import { inviteInto, password, type Person, press, seeHeading, signIn } from "./console/people.ts";
import { notPages, pathOf, seed, type SeededPaths } from "./console/places.ts";
import { costOf } from "./console/page-budget.ts";
import { type Site, startSite } from "./console/site.ts";
import { withVideos } from "./video-catalog.ts";
import type { Customer } from "./world.ts";

// What people may name themselves, as somebody would who wants it to run in another's browser.
const nasty = {
  account: `<img src=x onerror=alert("account")>`,
  key: `"><script>alert("key")</script>`,
  model: `<img src=x onerror=alert('model')>`,
};

const catalog = (fakeUrl: string, videosUrl: string): string =>
  withVideos(testCatalog(fakeUrl, { models: { [nasty.model]: modelOn("fake") } }), videosUrl);

describe("pages of the console", needsBrowser, () => {
  let site: Site;
  let owner: Person;
  let customer: Customer;
  let seeded: SeededPaths;

  before(async () => {
    site = await startSite({ catalog, beforeSetUp: checkAccessibility });
    const { world, browser, operator } = site;
    const { account } = await world.authQuota.createAccount({ name: nasty.account });
    const accountId = account?.accountId ?? "";
    await world.billing.credit({ accountId, amountNanos: 10_000_000_000n, paymentId: "pages", note: nasty.account });
    customer = await world.createKey(accountId, { name: nasty.key, models: [] });
    owner = await inviteInto(browser, operator, accountId);
    seeded = await seed(site, owner, customer, nasty.model);
  });
  after(() => site?.[Symbol.asyncDispose]());

  const name =
    "axe-core finds nothing on any page, light and dark, no page is wider than 320 px, and markup in names is text";
  // Some 250 pages in a browser, which take a minute alone.
  test(name, { timeout: 480_000 }, async () => {
    const routes = allRoutes({} as Deps).filter(({ method }) => method === "GET");
    const pages = routes.filter(({ url, access }) => !notPages.includes(url) && access !== "half" && url !== "/setup");
    const nobody = { page: await site.browser.open() };
    const visitorOf = ({ access, url }: Route): { page: Page } => {
      if (access === "everybody") return nobody;
      return url.startsWith("/operator") ? site.operator : owner;
    };
    const walks = [...Map.groupBy(pages, visitorOf)].map(async ([{ page }, theirs]) => {
      const problems: string[] = [];
      const menus = new Set<string>();
      const known = noControls();
      for (const { url } of theirs) {
        problems.push(...(await visit(page, pathOf(url, seeded), menus.has(menuOf(url)) ? "main" : "body", known)));
        menus.add(menuOf(url));
      }
      return problems;
    });
    assert.deepEqual((await Promise.all(walks)).flat(), []);
    site.browser.check();
  });

  test("the first page that a browser opens is at most 100 KB compressed, and nothing in it moves", async () => {
    const stranger = await site.browser.open();
    const base = `/accounts/${customer.accountId}`;
    const pages: [Page, string][] = [
      [stranger, "/sign-in"],
      ...[
        "",
        "/keys",
        "/activity",
        "/activity/refused",
        "/usage",
        "/quick-start",
        "/models",
        "/alerts",
        "/top-up",
        "/budget",
        "/audit",
      ].map((path): [Page, string] => [owner.page, base + path]),
    ];
    const problems: string[] = [];
    for (const [page, path] of pages) {
      const { compressedBytes, shifts } = await costOf(page, path);
      if (compressedBytes > 100_000) problems.push(`${path}: ${compressedBytes} bytes`);
      problems.push(...shifts.map((shift) => `${path}: ${shift}`));
    }
    assert.deepEqual(problems, []);
    site.browser.check();
  });

  test("the second factor is set up and asked for, and axe-core finds nothing on its pages", async () => {
    const { page, email } = await inviteInto(site.browser, site.operator, customer.accountId, "developer");
    await page.goto("/profile/second-factor");
    await press(page, "Set up");
    const secret = Secret.fromBase32((await page.locator("main code").first().innerText()).replaceAll("-", ""));
    await checkAccessibility(page);
    await page.getByRole("textbox", { name: "Code" }).fill(new TOTP({ secret }).generate());
    await page.getByLabel("Your password").fill(password);
    await press(page, "Confirm");
    await checkAccessibility(page);
    await page.getByRole("button", { name: "Sign out" }).click();
    await seeHeading(page, "Sign in");
    await signIn(page, email);
    await seeHeading(page, "Second factor");
    await checkAccessibility(page);
    // The code of now was taken by the confirmation; one step ahead is allowed for clocks that differ.
    await page
      .getByRole("textbox", { name: "Code" })
      .fill(new TOTP({ secret }).generate({ timestamp: Date.now() + 30_000 }));
    await press(page, "Continue");
    await page.goto("/profile");
    await seeHeading(page, "My profile");
    site.browser.check();
  });

  test("a keyboard alone signs in and makes a key", async () => {
    const page = await site.browser.open();
    await page.goto("/sign-in");
    await tabTo(page, "email");
    await page.keyboard.type(owner.email);
    await tabTo(page, "password");
    await page.keyboard.type(password);
    await enter(page);
    await seeHeading(page, nasty.account);
    await tabTo(page, "Keys");
    await enter(page);
    await tabTo(page, "Create key");
    await enter(page);
    await tabTo(page, "name");
    await page.keyboard.type("typed");
    await enter(page);
    await seeHeading(page, "Your new key");
    assert.match(await page.locator("code.secret").innerText(), /^sk-/);
    site.browser.check();
  });

  test("a key is made, changed, stopped, activated and deleted without script", async () => {
    const page = await site.browser.open({ hasScript: false });
    await signIn(page, owner.email);
    await page.goto(`/accounts/${customer.accountId}/keys/new`);
    await page.getByLabel("Name").fill("plain");
    await press(page, "Create key");
    const secret = await page.locator("code.secret").innerText();
    assert.equal(await page.getByRole("button", { name: "Copy" }).count(), 0);
    const statusOfCall = async (): Promise<number> =>
      (await makeCall(site.world.relayUrl, secret, { side: chat, isStream: false })).status;
    assert.equal(await statusOfCall(), 200);
    await page.goto(`/accounts/${customer.accountId}/keys`);
    await press(page, "Stop plain");
    assert.equal(await statusOfCall(), 401);
    await press(page, "Activate plain");
    assert.equal(await statusOfCall(), 200);
    await page.getByRole("link", { name: "Change plain" }).click();
    await page.getByLabel("Models").fill("another-model");
    await press(page, "Save");
    assert.notEqual(await statusOfCall(), 200);
    await page.getByRole("link", { name: "Delete plain" }).click();
    await press(page, "Delete key");
    assert.equal(await statusOfCall(), 401);
    assert.equal(await page.getByText("plain…").count(), 0);
    site.browser.check();
  });
});

/** What pages have in common whose menu is the same. */
const menuOf = (url: string): string => url.split("/", url.startsWith("/accounts/:") ? 3 : 2).join("/");

/** What is wrong with a page: every one owes accessibility, and what people wrote is text in it. */
async function visit(page: Page, path: string, part: "body" | "main", known: KnownControls): Promise<string[]> {
  const answer = await page.goto(path).catch((error: unknown) => String(error));
  if (typeof answer === "string") return [`${path}: ${answer}`];
  const status = answer?.status() ?? 0;
  if (status !== 200) return [`${path}: ${status}: ${await page.locator("main").innerText()}`];
  // An element of a name would be one that the console did not make.
  const made = await page.locator("img[src='x'], script:not([src])").count();
  return [...(made === 0 ? [] : [`${path}: markup in a name`]), ...(await accessibilityProblems(page, part, known))];
}
