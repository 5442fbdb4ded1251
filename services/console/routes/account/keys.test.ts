import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { KeyStatus, LimitPeriod } from "#proto/authquota/v1/authquota_pb.ts";
import type { Fields } from "../../testing/browser.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";

let world: World;
let owner: TestPerson;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => {
  world.neighbours.keys.clear();
  world.neighbours.received.length = 0;
});

const path = "/accounts/acme/keys";
const blank = { name: "a key", "last-day": "", limit: "", "limit-period": "", models: "" };
const make = (fields: Fields) => owner.browser.fill(`${path}/new`, { ...blank, ...fields });
const onlyKey = () => [...world.neighbours.keys.values()].at(-1);
const trail = (action: string) =>
  world.database.sql(
    `SELECT outcome, target, before, after FROM console.audit_entry WHERE action = '${action}' ORDER BY audit_id`,
  );

describe("making a key", () => {
  it("shows the secret on the answer and nowhere else, ever", async () => {
    const made = await make({ name: "mine" });
    const [key = ""] = world.neighbours.keys.keys();
    const secret = `secret-of-${key}`;
    assert.equal(made.status, 200);
    assert.ok(made.text.includes(secret));
    assert.equal(made.headers.get("cache-control"), "no-store");
    for (const page of [path, `${path}/${key}`, "/accounts/acme", "/profile"]) {
      assert.ok(!(await owner.browser.get(page)).text.includes(secret), page);
    }
    for (const table of ["audit_entry", "session", "person"]) {
      const rows = await world.database.sql(`SELECT t::text AS text FROM console.${table} AS t`);
      assert.ok(
        rows.every(({ text }) => !String(text).includes(secret)),
        table,
      );
    }
    assert.ok(!world.logText().includes(secret));
  });

  it("says why there is none of an account that has the most", async () => {
    await make({ name: "first" });
    const [key] = world.neighbours.keys.values();
    assert.ok(key);
    for (let count = 1; count < 1_000; count += 1) world.neighbours.keys.set(`key_${count}`, key);
    const { status, text } = await make({ name: "one more" });
    assert.equal(status, 422);
    assert.match(text, /The account has as many keys as an account can have\. Delete some first\./);
  });

  it("has a button to copy the secret, and says that reloading makes another key", async () => {
    const { text } = await make({ name: "copied" });
    assert.match(text, /<code class="secret" id="secret">secret-of-/);
    assert.match(text, /<button type="button" class="outline small" data-copy="secret" hidden>Copy/);
    assert.match(text, /Do not reload this page: that would make another key/);
  });

  it("shows code for a model that the key may use, and tells of the first call once it is charged", async () => {
    const { text } = await make({ name: "first", models: "chat-large" });
    assert.match(text, /<code id="shell-line">export RELAY_API_KEY=secret-of-/);
    assert.match(text, /<code id="curl">[^<]*chat-large/);
    const where = /hx-get="([^"]+\/first-call)" hx-trigger="every 1s"/.exec(text)?.[1] ?? "";
    const live = { "hx-request": "true" };
    assert.match((await owner.browser.get(where, live)).text, /^<p role="status" hx-get=.*Waiting for your first call/);
    const keyId = onlyKey()?.keyId ?? "";
    world.neighbours.charged.set(keyId, new Date());
    const told = await owner.browser.get(where, live);
    assert.match(told.text, /Your first call came and cost<data[^>]* title="0\.007 USD">/);
    assert.doesNotMatch(told.text, /hx-get/, "it asks no more");
  });

  it("takes a limit exact to the nano, the last day it works on, and models", async () => {
    await make({
      name: "  exact  ",
      limit: "12.000000001",
      "last-day": "2027-01-31",
      models: "gpt-a\r\n\r\n gpt-b \r\ngpt-a",
    });
    const key = onlyKey();
    assert.equal(key?.name, "exact");
    assert.equal(key?.limitNanos, 12_000_000_001n);
    assert.equal(key?.expiresAt && timestampDate(key.expiresAt).toISOString(), "2027-02-01T00:00:00.000Z");
    assert.deepEqual(key?.models, ["gpt-a", "gpt-b"]);
    const list = (await owner.browser.get(path)).text;
    assert.match(list, /2027-01-31/);
    assert.match(list, /12\.000000001 USD/);
    assert.match(list, /0\.007 USD/, "what it has spent, from billing");
    assert.deepEqual(await trail("key.create").then((lines) => lines.at(-1)), {
      outcome: "done",
      target: key?.keyId,
      before: null,
      after: {
        keyId: key?.keyId,
        name: "exact",
        expiresAt: "2027-02-01T00:00:00.000Z",
        limitNanos: "12000000001",
        models: ["gpt-a", "gpt-b"],
      },
    });
  });

  it("takes tags, lists keys by them, and takes them away", async () => {
    await make({ name: "tagged", tags: "team=search, prod prod" });
    assert.deepEqual(onlyKey()?.tags, ["team=search", "prod"]);
    await make({ name: "plain" });
    const seen = await owner.browser.get(`${path}?tag=team%3Dsearch`);
    assert.match(
      seen.text,
      /<a href="\/accounts\/acme\/keys\?tag&#61;team%3Dsearch" aria-current="page">team&#61;search</,
    );
    assert.match(seen.text, /<th scope="row">\s*tagged/);
    assert.doesNotMatch(seen.text, /<th scope="row">\s*plain/);
    const id = [...world.neighbours.keys.values()].find(({ name }) => name === "tagged")?.keyId ?? "";
    assert.match((await owner.browser.get(`${path}/${id}`)).text, /name="tags"[^>]*value="team&#61;search prod"/);
    const tagged = (): readonly string[] | undefined => world.neighbours.keys.get(id)?.tags;
    await owner.browser.fill(`${path}/${id}`, { ...blank, tags: "staging" });
    assert.deepEqual(tagged(), ["staging"]);
    await owner.browser.fill(`${path}/${id}`, { ...blank, tags: "" });
    assert.deepEqual(tagged(), []);
    for (const tags of ["=x", "a\u0007", "x".repeat(65), Array.from({ length: 11 }, (_, at) => `t${at}`).join(" ")]) {
      assert.equal((await make({ tags })).status, 422, tags);
    }
  });

  it("takes calls per minute and addresses, shows them, and changes them", async () => {
    await make({ name: "bounded", "requests-per-minute": "60", addresses: "192.0.2.7\n2001:DB8::/48\n" });
    const key = onlyKey();
    assert.deepEqual([key?.requestsPerMinute, key?.addresses], [60, ["192.0.2.7", "2001:db8::/48"]]);
    const list = (await owner.browser.get(path)).text;
    assert.match(list, /<small>60 calls a minute<\/small>/);
    assert.match(list, /<small>only from 192\.0\.2\.7, 2001:db8::\/48<\/small>/);
    const changing = `${path}/${key?.keyId ?? ""}`;
    const form = (await owner.browser.get(changing)).text;
    assert.match(form, / value="60"/);
    assert.match(form, />192\.0\.2\.7\s2001:db8::\/48<\/textarea>/);
    await owner.browser.fill(changing, { ...blank, "requests-per-minute": "", addresses: "" });
    assert.deepEqual([onlyKey()?.requestsPerMinute, onlyKey()?.addresses], [0, []]);
    const line = (await trail("key.change")).at(-1);
    const before = line?.["before"] as Record<string, unknown>;
    assert.deepEqual([before["requestsPerMinute"], before["addresses"]], [60, ["192.0.2.7", "2001:db8::/48"]]);
  });

  it("refuses what is no name, amount, day or list of models, and asks nobody for a key", async () => {
    const wrong: Fields[] = [
      { name: "" },
      { name: "a".repeat(201) },
      { name: "two\nlines" },
      { limit: "-1" },
      { limit: "1,5" },
      { limit: "1e3" },
      { limit: "0.0000000001" },
      { limit: "9007199.254740992" },
      { "limit-period": "day" },
      { limit: "1", "limit-period": "year" },
      { "last-day": "31.01.2027" },
      { "last-day": "2027-02-29" },
      { "requests-per-minute": "1.5" },
      { "requests-per-minute": "1000001" },
      { addresses: "192.0.2.7/24" },
      { addresses: Array.from({ length: 65 }, (_, index) => `192.0.2.${index}`).join("\n") },
      { models: "a".repeat(257) },
      { models: Array.from({ length: 201 }, (_, index) => `m${index}`).join("\n") },
    ];
    for (const fields of wrong) assert.equal((await make(fields)).status, 422, JSON.stringify(fields).slice(0, 80));
    assert.deepEqual(world.neighbours.received, []);
    assert.equal((await make({ limit: "9007199.254740991" })).status, 200);
  });

  it("that may or may not have happened leaves an open line in the audit log", async () => {
    world.neighbours.breakAfter = "createKey";
    try {
      const seen = await make({ name: "lost answer" });
      assert.equal(seen.status, 503);
      assert.match(seen.text, /first check whether it was done/);
    } finally {
      world.neighbours.breakAfter = "";
    }
    const lines = await trail("key.create");
    const wanted = { name: "lost answer", expiresAt: null, limitNanos: null, models: [] };
    assert.deepEqual(lines.at(-1), { outcome: "asked", target: "lost answer", before: null, after: wanted });
  });
});

/** The exact amounts in the row of a key: spent, limit, left. */
function amountsOf(text: string, name: string): string[] {
  const row = text.split("<tr>").find((one) => one.startsWith(`<th scope="row">${name}<small>`)) ?? "";
  return [...row.matchAll(/title="([^"]* USD)"/g)].map((match) => match[1] ?? "");
}

describe("the list of keys", () => {
  it("tells what is left of the limit, never less than nothing", async () => {
    await make({ name: "some", limit: "1" });
    await make({ name: "used up", limit: "0.005" });
    await make({ name: "none" });
    const { text } = await owner.browser.get(path);
    assert.deepEqual(amountsOf(text, "some"), ["0.007 USD", "1.00 USD", "0.993 USD"]);
    assert.deepEqual(amountsOf(text, "used up"), ["0.007 USD", "0.005 USD", "0.00 USD"]);
    assert.deepEqual(amountsOf(text, "none"), ["0.007 USD"]);
  });

  it("tells what is left of a limit for each day, of what was spent before it began nothing", async () => {
    await make({ name: "daily", limit: "1", "limit-period": "day" });
    const key = onlyKey();
    assert.ok(key);
    assert.equal(key.limitPeriod, LimitPeriod.DAY);
    key.spentBeforeNanos = 5_000_000n;
    const { text } = await owner.browser.get(path);
    assert.deepEqual(amountsOf(text, "daily"), ["0.007 USD", "1.00 USD", "0.998 USD"]);
    assert.match(text, /<\/data>each day<small>/);
    const change = (await owner.browser.get(`${path}/${key.keyId}`)).text;
    assert.match(change, /<option value="day"\s+selected>/);
    assert.match(JSON.stringify((await trail("key.create")).at(-1)), /"limitPeriod":"day"/);
    await owner.browser.fill(`${path}/${key.keyId}`, { ...blank, limit: "2", "limit-period": "month" });
    assert.deepEqual([onlyKey()?.limitNanos, onlyKey()?.limitPeriod], [2_000_000_000n, LimitPeriod.MONTH]);
  });

  it("tells when a key was used last, as far as that is known, and leads to its usage", async () => {
    const used = world.neighbours.addKey("acme", "used");
    world.neighbours.addKey("acme", "older");
    const unused = world.neighbours.addKey("acme", "unused");
    world.neighbours.charged.set(used, new Date("2026-11-20T10:11:12Z"));
    world.neighbours.spent.set(unused, 0n);
    const { text } = await owner.browser.get(path);
    assert.match(text, /used<small>(?:(?!<tr>).)*2026-11-20 10:11<\/time>/);
    assert.match(text, /older<small>(?:(?!<tr>).)*not known<\/td>/);
    assert.match(text, /unused<small>(?:(?!<tr>).)*never<\/td>/);
    assert.match(text, new RegExp(`href="/accounts/acme/usage\\?key&#61;${used}"`));
  });

  it("calls a key without a name by its id", async () => {
    const keyId = world.neighbours.addKey("acme", "");
    const { text } = await owner.browser.get(path);
    assert.match(text, new RegExp(`<th scope="row">${keyId}<small>`));
    assert.match(text, new RegExp(`Stop<span class="hidden">${keyId}</span>`));
    assert.match((await owner.browser.get(`${path}/${keyId}/delete`)).text, new RegExp(`The key ${keyId} will stop`));
  });

  it("says that a key is expired once its last day is over", async () => {
    await make({ name: "short", "last-day": "2027-01-31" });
    assert.match((await owner.browser.get(path)).text, />active<\/span>(?:(?!<tr>).)*<td>2027-01-31<\/td>/);
    await make({ name: "over", "last-day": "2026-11-01" });
    assert.match((await owner.browser.get(path)).text, />expired<\/span>(?:(?!<tr>).)*<td>2026-11-01<\/td>/);
  });
});

describe("changing a key", () => {
  it("is not found for a key that is deleted, another account's, or no id at all", async () => {
    const deleted = world.neighbours.addKey("acme", "deleted");
    const key = world.neighbours.keys.get(deleted);
    if (key) key.status = KeyStatus.DELETED;
    world.neighbours.addAccount("other");
    const foreign = world.neighbours.addKey("other", "foreign");
    for (const keyId of [deleted, foreign, "none", "%3Cscript%3E", "a".repeat(65)]) {
      assert.equal((await owner.browser.get(`${path}/${keyId}`)).status, 404, keyId);
    }
  });

  it("says what changed, before and after, and leaves an expiry alone that was not touched", async () => {
    await make({ name: "before", limit: "5", "last-day": "2027-01-31", models: "gpt-a" });
    const keyId = onlyKey()?.keyId ?? "";
    const page = await owner.browser.get(`${path}/${keyId}`);
    assert.match(page.text, /name="name"[^>]* value="before"/);
    assert.match(page.text, /value="2027-01-31"/);
    assert.match(page.text, / value="5"/);
    assert.match(page.text, />gpt-a<\/textarea>/);
    const changed = { name: "after", "last-day": "2027-01-31", limit: "", "limit-period": "", models: "" };
    const list = await owner.browser.submit(`${path}/${keyId}`, changed);
    assert.match(list.text, /The key after is changed/);
    const key = onlyKey();
    assert.equal(key?.limitNanos, undefined);
    assert.deepEqual(key?.models, []);
    assert.equal(key?.expiresAt && timestampDate(key.expiresAt).toISOString(), "2027-02-01T00:00:00.000Z");
    const line = (await trail("key.change")).at(-1);
    const expiresAt = "2027-02-01T00:00:00.000Z";
    assert.deepEqual(line?.["before"], { name: "before", expiresAt, limitNanos: "5000000000", models: ["gpt-a"] });
    assert.deepEqual(line?.["after"], { name: "after", expiresAt, limitNanos: null, models: [] });
    await owner.browser.fill(`${path}/${keyId}`, { ...changed, "last-day": "" });
    assert.equal(onlyKey()?.expiresAt, undefined);
  });

  it("stops, activates, and deletes after a page that asks", async () => {
    await make({ name: "turned" });
    const keyId = onlyKey()?.keyId ?? "";
    const status = () => world.neighbours.keys.get(keyId)?.status;
    const stopped = await owner.browser.submit(path, {}, `${path}/${keyId}/stop`);
    assert.match(stopped.text, /role="status">The key turned is stopped\./);
    assert.equal(status(), KeyStatus.STOPPED);
    assert.doesNotMatch((await owner.browser.get(path)).text, /is stopped\./, "it is said once");
    await owner.browser.submit(path, {}, `${path}/${keyId}/activate`);
    assert.equal(status(), KeyStatus.ACTIVE);
    const question = await owner.browser.get(`${path}/${keyId}/delete`);
    assert.match(question.text, /stop working permanently/);
    assert.equal(status(), KeyStatus.ACTIVE, "a GET changes nothing");
    await owner.browser.post(`${path}/${keyId}/delete`);
    assert.equal(status(), KeyStatus.DELETED);
    assert.equal((await owner.browser.get(`${path}/${keyId}`)).status, 404);
    assert.deepEqual(
      (await trail("key.delete")).map(({ outcome }) => outcome),
      ["asked", "done"],
    );
  });

  it("lists fifty at a time", async () => {
    for (let index = 0; index < 51; index += 1) world.neighbours.addKey("acme", `number ${index}`);
    const first = await owner.browser.get(path);
    assert.match(first.text, /number 50</);
    assert.doesNotMatch(first.text, /number 0</);
    assert.match(first.text, /href="\/accounts\/acme\/keys\?page&#61;1"/);
    const second = await owner.browser.get(`${path}?page=1`);
    assert.match(second.text, /number 0</);
    assert.doesNotMatch(second.text, /Next page/);
    for (const page of ["-1", "x", "99999", "1e9"])
      assert.equal((await owner.browser.get(`${path}?page=${page}`)).status, 200);
  });
});
