import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { idBefore } from "./directory.ts";
import type { Fields } from "./testing/browser.ts";
import { startWorld, type World } from "./testing/console.ts";
import { join, setUp, type Somebody } from "./testing/people.ts";

let world: World;
let owner: Somebody;

before(async () => {
  world = await startWorld();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  owner = await join(world, operator.browser, "acme", "owner");
});
after(() => world[Symbol.asyncDispose]());
beforeEach(() => {
  world.neighbours.keys.clear();
  world.neighbours.asked.length = 0;
});

const path = "/accounts/acme/keys";
const blank = { name: "a key", "last-day": "", limit: "", models: "" };
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
      { "last-day": "31.01.2027" },
      { "last-day": "2027-02-29" },
      { models: "a".repeat(257) },
      { models: Array.from({ length: 201 }, (_, index) => `m${index}`).join("\n") },
    ];
    for (const fields of wrong) assert.equal((await make(fields)).status, 422, JSON.stringify(fields).slice(0, 80));
    assert.deepEqual(world.neighbours.asked, []);
    assert.equal((await make({ limit: "9007199.254740991" })).status, 200);
  });

  it("that may or may not have happened leaves an open line in the audit log", async () => {
    world.neighbours.breakAfter = "createKey";
    try {
      const seen = await make({ name: "lost answer" });
      assert.equal(seen.status, 503);
      assert.match(seen.text, /look first whether it was done/);
    } finally {
      world.neighbours.breakAfter = "";
    }
    const lines = await trail("key.create");
    const wanted = { name: "lost answer", expiresAt: null, limitNanos: null, models: [] };
    assert.deepEqual(lines.at(-1), { outcome: "asked", target: "lost answer", before: null, after: wanted });
  });
});

describe("changing a key", () => {
  it("says what changed, before and after, and leaves an expiry alone that was not touched", async () => {
    await make({ name: "before", limit: "5", "last-day": "2027-01-31", models: "gpt-a" });
    const keyId = onlyKey()?.keyId ?? "";
    const page = await owner.browser.get(`${path}/${keyId}`);
    assert.match(page.text, /name="name"[^>]* value="before"/);
    assert.match(page.text, /value="2027-01-31"/);
    assert.match(page.text, / value="5"/);
    assert.match(page.text, />gpt-a<\/textarea>/);
    const changed = { name: "after", "last-day": "2027-01-31", limit: "", models: "" };
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
    assert.match(question.text, /refused for good/);
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

it("the id before another is the greatest one that is less, by bytes, of at most 64 characters", () => {
  const alphabet = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".split("");
  assert.deepEqual(
    alphabet,
    alphabet.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
  );
  assert.equal(idBefore("b"), `a${"z".repeat(63)}`);
  assert.equal(idBefore("ab-"), "ab");
  assert.equal(idBefore("-"), "");
  assert.equal(idBefore(`${"a".repeat(63)}b`), "a".repeat(64));
  const less = (a: string, b: string): boolean => Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
  for (const id of ["acct_1", "A", "z", "0", "_", "a_", "x".repeat(64)]) {
    const before = idBefore(id);
    assert.ok(before.length <= 64 && less(before, id), id);
    const others = alphabet.flatMap((letter) => [
      id.slice(0, -1) + letter,
      id.slice(0, -1) + letter + "zzz",
      id + letter,
    ]);
    for (const other of others.filter((one) => one.length <= 64))
      assert.ok(!less(before, other) || !less(other, id), other);
  }
});
