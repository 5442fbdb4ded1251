import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import { ServiceError } from "#shared/process/errors.ts";
import { createLog } from "#shared/process/log.ts";
import { until } from "#shared/testing/until.ts";
import { followStoredCatalog } from "./stored.ts";

const log = createLog("test", "silent");
const away = new ServiceError("unavailable", "auth-quota does not answer");

/** Applied catalogs in memory; texts with "bad" in them cannot be used. */
function createStore(...texts: string[]) {
  const store = { texts: [...texts], failures: [] as Error[], asked: 0, full: 0, replaced: [] as string[] };
  const tell = (version: number) => ({ version: BigInt(version), content: store.texts[version - 1] ?? "" });
  const source = {
    getAppliedCatalog: async ({ knownVersion = 0n, knownHash = "", beforeVersion = 0n }) => {
      store.asked += 1;
      const failure = store.failures.shift();
      if (failure) throw failure;
      const version = beforeVersion === 0n ? store.texts.length : Number(beforeVersion) - 1;
      if (version === 0) throw new ServiceError("not_found", "none");
      const found = { ...tell(version), hash: hash("sha256", tell(version).content) };
      if (found.version === knownVersion && found.hash === knownHash) return { ...found, content: "" };
      store.full += 1;
      return found;
    },
  };
  const take = (text: string): string => {
    if (text.includes("bad")) throw new Error(`${text} cannot be used`);
    return text;
  };
  const follow = (file = "file") =>
    followStoredCatalog(
      {
        source,
        readFile: () => file,
        takeFile: take,
        takeApplied: (text) => `applied ${take(text)}`,
        onReplaced: (value) => store.replaced.push(value),
        log,
      },
      { retryMs: 1, followMs: 1 },
    );
  return { store, follow };
}

async function untilAskedAgain(store: { asked: number }): Promise<void> {
  const before = store.asked;
  await until("it is asked for twice more", () => store.asked > before + 2);
}

test("until one is applied the file's is in force, then each that is applied, and of what is known no text is told", async () => {
  const { store, follow } = createStore();
  await using catalog = await follow();
  assert.deepEqual([catalog.current(), catalog.file().appliedVersion, catalog.isStale()], ["file", 0n, false]);
  store.texts.push("one");
  await until("the first is taken", () => catalog.current() === "applied one");
  assert.deepEqual([catalog.file().appliedVersion, catalog.file().contentHash], [1n, hash("sha256", "one")]);
  await untilAskedAgain(store);
  assert.deepEqual([store.full, store.replaced], [1, ["applied one"]]);
});

test("a bad one is refused and told, the last good one stays, and the next good one is taken", async () => {
  const { store, follow } = createStore("one");
  await using catalog = await follow();
  store.texts.push("bad");
  await until("it is refused", catalog.isStale);
  assert.equal(catalog.current(), "applied one");
  assert.deepEqual([catalog.file().appliedVersion, catalog.file().text], [1n, "one"]);
  assert.match(catalog.file().problem, /version 2:\nbad cannot be used/);
  store.texts.push("three");
  await until("the next is taken", () => catalog.current() === "applied three");
  assert.equal(catalog.isStale(), false);
});

test("whoever starts with a bad one begins with the newest good one before, and goes on to the next", async () => {
  const { store, follow } = createStore("one", "two", "bad", "very bad");
  await using catalog = await follow("bad file");
  assert.deepEqual([catalog.current(), catalog.file().appliedVersion, catalog.isStale()], ["applied two", 2n, true]);
  assert.match(catalog.file().problem, /version 4:\nvery bad cannot be used\nversion 3:\nbad cannot/);
  await untilAskedAgain(store);
  assert.equal(catalog.isStale(), true, "the refused one is not taken for a new one");
  store.texts.push("five");
  await until("the next is taken", () => catalog.current() === "applied five" && !catalog.isStale());
});

test("while nobody tells it waits, and does not begin with the file's prices", async () => {
  const { store, follow } = createStore("one");
  store.failures.push(away, away);
  await using catalog = await follow();
  assert.equal(catalog.current(), "applied one");
  store.failures.push(...Array.from({ length: 40 }, () => away));
  store.texts.push("two");
  await until("the next is taken after the outage", () => catalog.current() === "applied two");

  const gone = createStore("one");
  gone.store.failures.push(...Array.from({ length: 30 }, () => away));
  await assert.rejects(gone.follow(), /auth-quota does not tell which catalog is applied/);
});

test("when none can be used here, all reasons are told", async () => {
  await assert.rejects(
    createStore("bad", "bad 2").follow(),
    /no applied catalog can be used[^]*version 2[^]*version 1/,
  );
});

test("a restored database that has an older version last is followed, as processes that start now do", async () => {
  const { store, follow } = createStore("one", "two");
  await using catalog = await follow();
  store.texts.pop();
  await until("it goes back", () => catalog.current() === "applied one");
});
