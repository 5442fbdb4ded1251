import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import { html, render, type Markup } from "./html.ts";
import { startWorld, type World } from "../testing/console.ts";
import { invite, join, setUp, type TestPerson } from "../testing/people.ts";

describe("a template", () => {
  it("escapes every value, in text and in attributes", () => {
    const wrong = `<script>alert("1")</script>&'=`;
    const escaped = "&#60;script&#62;alert(&#34;1&#34;)&#60;/script&#62;&#38;&#39;&#61;";
    assert.equal(render(html`<p title="${wrong}">${wrong}</p>`), `<p title="${escaped}">${escaped}</p>`);
    assert.equal(render(html`${[wrong, [wrong]]}`), escaped + escaped);
    assert.equal(render(html`<b>${html`<i>${"<"}</i>`}</b>${undefined}${false}${0}${7n}`), "<b><i>&#60;</i></b>07");
  });

  it("has no way round: neither the ! of ghtml nor anything that came as JSON", () => {
    assert.equal(render(html`Hello!${"<b>"}`), "Hello!&#60;b&#62;");
    const looksLike = JSON.parse('{"markup":"<b>","Symbol(markup)":"<b>","text":"<b>"}') as Markup;
    assert.doesNotMatch(render(html`${looksLike}`), /<b>/);
  });

  it("is the only one that makes pages: ghtml is imported in one file, and no file writes a raw value", () => {
    const service = joinPath(import.meta.dirname, "..");
    const files = globSync("**/*.ts", { cwd: service, exclude: (path) => path.endsWith(".test.ts") });
    assert.ok(files.length > 40);
    for (const file of files) {
      const text = readFileSync(joinPath(service, file), "utf8");
      if (file !== "html/html.ts") assert.ok(!text.includes('from "ghtml"'), file);
      assert.doesNotMatch(text, /!\$\{/, file);
    }
  });
});

describe("names with markup in them", () => {
  const wrong = `"><script>alert(1)</script>&amp;'`;
  let world: World;
  let operator: TestPerson;
  let owner: TestPerson;

  before(async () => {
    world = await startWorld();
    operator = await setUp(world);
    const { browser } = operator;
    await browser.fill("/operator/accounts/new", { name: wrong, rate: "0", id: "acme" });
    owner = await join(world, browser, "acme", "owner");
    await owner.browser.fill("/accounts/acme/keys/new", { name: wrong, models: wrong, limit: "", "last-day": "" });
    await browser.get("/operator/accounts/acme");
    await browser.post("/operator/accounts/acme/credit", { credit: "1", payment: wrong, note: wrong });
    await browser.get("/operator/accounts/acme");
    await browser.post("/operator/accounts/acme/correct", { correction: "-1", reason: wrong, "correction-id": wrong });
    await invite(browser, "acme", "o'brien&co@example.org", "developer");
    await world.browser().get("/sign-in", { "user-agent": wrong });
    const other = world.browser();
    await other.get("/sign-in");
    const credentials = { email: owner.email, password: "correct horse battery staple" };
    await other.post("/sign-in", credentials, { "user-agent": wrong });
  });
  after(() => world[Symbol.asyncDispose]());

  it("are shown as they were typed, on every page", async () => {
    const [key = ""] = world.neighbours.keys.keys();
    const paths: [TestPerson, string][] = [
      [owner, "/accounts"],
      [owner, "/accounts/acme"],
      [owner, "/accounts/acme/keys"],
      [owner, `/accounts/acme/keys/${key}`],
      [owner, `/accounts/acme/keys/${key}/delete`],
      [owner, "/profile/sessions"],
      [operator, "/operator/accounts"],
      [operator, "/operator/accounts/acme"],
      [operator, "/operator/audit"],
    ];
    for (const [{ browser }, path] of paths) {
      const { text } = await browser.get(path);
      assert.doesNotMatch(text, /<script>|&amp;/, path);
      assert.match(text, /&#60;script&#62;alert\(1\)&#60;\/script&#62;&#38;amp;/, path);
    }
    const { text } = await owner.browser.get("/accounts/acme/members");
    assert.match(text, /o&#39;brien&#38;co@example\.org/);
  });

  it("are so, too, in what a form says was done, and in a form that comes back", async () => {
    const [key = ""] = world.neighbours.keys.keys();
    const path = "/accounts/acme/keys";
    const flash = await owner.browser.submit(path, {}, `${path}/${key}/stop`);
    assert.match(flash.text, /role="status">The key &#34;&#62;&#60;script/);
    const again = await owner.browser.fill(`${path}/new`, { name: wrong, limit: wrong, models: `</textarea>${wrong}` });
    assert.equal(again.status, 422);
    assert.doesNotMatch(again.text, /<script>|<\/textarea>(?!<)/);
    const signIn = await world.browser().fill("/sign-in", { email: wrong, password: wrong });
    assert.doesNotMatch(signIn.text, /<script>/);
    const filter = await operator.browser.get(
      `/operator/audit?email=${encodeURIComponent(wrong)}&action=${encodeURIComponent(wrong)}`,
    );
    assert.doesNotMatch(filter.text, /<script>/);
    const next = await world
      .browser()
      .get(`/sign-in?next=${encodeURIComponent(wrong)}&note=${encodeURIComponent(wrong)}`);
    assert.doesNotMatch(next.text, /<script>/);
  });
});
