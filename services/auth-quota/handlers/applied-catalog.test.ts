import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { after, before, test } from "node:test";
import { query, startAppWorld, type AppEnvironment } from "../testing/app-world.ts";

let world: AppEnvironment;
before(async () => {
  world = await startAppWorld();
});
after(() => world[Symbol.asyncDispose]());

const words = { author: "ann@example.com", note: "new prices" };
const priced = (prices: string, priceVersion = "1") => [{ model: "m", priceVersion, prices }];

async function newest(): Promise<bigint> {
  return (await world.first.admin.listCatalogs({})).applied[0]?.version ?? 0n;
}

/** Applies a catalog in the place of the newest. */
async function applyNext(content: string, more: object = {}): Promise<bigint> {
  const asked = { content, baseVersion: await newest(), ...words, ...more };
  return (await world.first.admin.applyCatalog(asked)).version;
}

test("what is applied is told to relays, and to people with who did it and why; kept ones are listed beside", async () => {
  const { admin } = world.first;
  await assert.rejects(admin.getAppliedCatalog({}), { code: "not_found" });
  assert.deepEqual((await admin.listCatalogs({})).applied, []);
  await admin.keepCatalog({ content: "from a file", takenBy: "relay-1", proof: new Uint8Array(32) });
  assert.equal(await applyNext("one"), 1n);
  assert.equal(await applyNext("two"), 2n);

  const told = await admin.getAppliedCatalog({});
  assert.deepEqual([told.version, told.hash, told.content], [2n, hash("sha256", "two"), "two"]);
  const known = { knownVersion: 2n, knownHash: told.hash };
  assert.equal((await admin.getAppliedCatalog(known)).content, "", "no text of what is known");
  assert.equal((await admin.getAppliedCatalog({ ...known, knownHash: "other" })).content, "two");
  assert.equal((await admin.getAppliedCatalog({ beforeVersion: 2n })).content, "one");
  await assert.rejects(admin.getAppliedCatalog({ beforeVersion: 1n }), { code: "not_found" });

  const { applied, kept } = await admin.listCatalogs({});
  const tell = ({ version, author, note, hasContent, at }: (typeof applied)[number]) =>
    [version, author, note, hasContent, at === undefined].join();
  assert.deepEqual(
    applied.map(tell),
    [2n, 1n].map((at) => `${at},ann@example.com,new prices,true,false`),
  );
  assert.deepEqual(kept.map(tell), [`${kept[0]?.version},relay-1,,true,false`]);
  assert.equal((await admin.getCatalog({ isApplied: true, version: 1n })).content, "one");
  assert.equal((await admin.getCatalog({ version: kept[0]?.version ?? 0n })).content, "from a file");
  await assert.rejects(admin.getCatalog({ isApplied: true, version: 9n }), { code: "not_found" });
});

test("of those that began with the same version one wins, and the others are told which is applied", async () => {
  const { admin } = world.first;
  const baseVersion = await newest();
  const asked = ["a", "b", "c", "d", "e"].map((content) => admin.applyCatalog({ content, baseVersion, ...words }));
  const outcomes = await Promise.allSettled(asked);
  const refusals = outcomes.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
  assert.equal(refusals.length, 4);
  for (const { reason } of refusals) {
    assert.equal((reason as { code: string }).code, "failed_precondition");
    assert.match(String(reason), new RegExp(`version ${baseVersion + 1n} is applied by now`));
  }
  assert.equal(await newest(), baseVersion + 1n);
});

test("asked again it does nothing, and when others came after it, it is refused", async () => {
  const { admin } = world.first;
  const asked = { content: "once", baseVersion: await newest(), ...words };
  const { version } = await admin.applyCatalog(asked);
  assert.equal((await admin.applyCatalog(asked)).version, version);
  assert.equal(await newest(), version);
  await assert.rejects(admin.applyCatalog({ ...asked, author: "bob" }), { code: "failed_precondition" });
  await applyNext("later");
  await assert.rejects(admin.applyCatalog(asked), { code: "failed_precondition" });
  assert.equal((await admin.getAppliedCatalog({})).content, "later");
});

test("a version of prices never gets other prices, however many versions of the catalog lie between", async () => {
  const { admin } = world.first;
  await applyNext("at 1", { prices: priced("input_tokens=1") });
  await applyNext("at 2", { prices: priced("input_tokens=2", "2") });
  const before = await newest();
  await assert.rejects(applyNext("at 3", { prices: priced("input_tokens=3") }), (error: Error & { code: string }) => {
    assert.equal(error.code, "failed_precondition");
    assert.match(error.message, /other prices than before: m in version 1; give new prices a new version/);
    return true;
  });
  assert.equal(await newest(), before, "nothing was applied");
  await applyNext("at 1", { prices: priced("input_tokens=1") });
  assert.equal((await admin.getAppliedCatalog({})).content, "at 1", "back to what it was");
});

test("of old ones the text goes and who applied them stays", async () => {
  const { admin } = world.first;
  const first = await newest();
  await query(
    world.ownerUrl,
    `insert into auth_quota.applied_catalog (version, hash, content, author, via, note)
     select ${first} + n, 'h', 'x', 'bulk', 'admin', '' from generate_series(1, 60) n`,
  );
  const last = await applyNext("last");
  assert.equal(last, first + 61n);
  const { applied } = await admin.listCatalogs({});
  assert.equal(applied.length, 51);
  assert.ok(applied.every(({ hasContent }) => hasContent));
  const older = (await admin.listCatalogs({ beforeVersion: applied.at(-1)?.version ?? 0n })).applied;
  assert.deepEqual([older[0]?.version, older[0]?.hasContent, older[0]?.author], [last - 51n, false, "bulk"]);
  await assert.rejects(admin.getCatalog({ isApplied: true, version: last - 51n }), { code: "not_found" });
});

test("what is no catalog, author or note is refused", async () => {
  const wrong = [
    { content: "" },
    { content: "x".repeat(1_048_577) },
    { content: "a\0b" },
    { content: "x", author: "" },
    { content: "x", author: "a".repeat(201) },
    { content: "x", author: "ann\nbob" },
    { content: "x", note: "n".repeat(501) },
    { content: "x", note: "seen \u202E by nobody" },
    { content: "x", baseVersion: -1n },
    { content: "x", prices: [{ model: "", priceVersion: "1", prices: "" }] },
    { content: "x", prices: Array.from({ length: 20_001 }, () => priced("")[0] ?? {}) },
  ];
  for (const [at, { content, ...more }] of wrong.entries())
    await assert.rejects(applyNext(content, more), { code: "invalid_argument" }, `row ${at}`);
});
