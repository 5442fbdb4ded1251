import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError } from "#shared/process/errors.ts";
import { gather } from "./batch-loader.ts";
import { createIdentities } from "./identity.ts";

const identityOf = (keyHash: string) => ({ keyId: `key of ${keyHash}`, accountId: "acct" });

function countingLoad(isKnown: (keyHash: string) => boolean) {
  const asked: string[][] = [];
  const load = async (keyHashes: string[]) => {
    asked.push(keyHashes);
    return new Map(keyHashes.filter(isKnown).map((keyHash) => [keyHash, identityOf(keyHash)]));
  };
  return { asked, load };
}

test("lookups of one turn go out as one question, and the same hash is asked for once", async () => {
  const { asked, load } = countingLoad(() => true);
  const { lookUp } = createIdentities(load);
  const found = await Promise.all([lookUp("a"), lookUp("b"), lookUp("a")]);
  assert.deepEqual(found, [identityOf("a"), identityOf("b"), identityOf("a")]);
  assert.deepEqual(asked, [["a", "b"]]);
});

test("a known identity is never asked for again; the one not used for longest is forgotten first", async () => {
  const { load } = countingLoad(() => true);
  const { recall, lookUp } = createIdentities(load, { maxKnown: 2, maxUnknown: 10, unknownMs: 1_000 });
  await lookUp("a");
  await lookUp("b");
  assert.deepEqual(recall("a"), identityOf("a"));
  await lookUp("c");
  assert.equal(recall("b"), undefined);
  assert.deepEqual(recall("a"), identityOf("a"));
});

test("a hash that no key has is remembered for a while, so that wrong keys do not reach the database", async (t) => {
  const { asked, load } = countingLoad(() => false);
  const { recall, lookUp } = createIdentities(load, { maxKnown: 2, maxUnknown: 2, unknownMs: 5_000 });
  let nowMs = 1_000;
  t.mock.method(performance, "now", () => nowMs);
  assert.equal(await lookUp("wrong"), null);
  assert.equal(recall("wrong"), null);
  nowMs += 5_001;
  assert.equal(recall("wrong"), undefined);
  await lookUp("x");
  await lookUp("y");
  await lookUp("z");
  assert.deepEqual([recall("x"), recall("y"), recall("z")], [undefined, null, null]);
  assert.equal(asked.length, 4);
});

test("more than 1,000 ids at once are asked for in deps", async () => {
  const { asked, load } = countingLoad(() => true);
  const loadOne = gather(load);
  await Promise.all(Array.from({ length: 2_500 }, (_, index) => loadOne(`h${index}`)));
  assert.deepEqual(
    asked.map((ids) => ids.length),
    [1_000, 1_000, 500],
  );
});

test("a load that takes longer than 1.5 s has failed", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const isAsked = Promise.withResolvers<void>();
  const loadOne = gather(() => {
    isAsked.resolve();
    return new Promise<Map<string, string>>(() => undefined);
  });
  const asked = loadOne("a");
  const rejected = assert.rejects(asked, { code: "unavailable" });
  await isAsked.promise;
  t.mock.timers.tick(1_501);
  await rejected;
});

test("after a failure questions are answered at once as unavailable for a second, then asked again", async (t) => {
  let isDown = true;
  let asked = 0;
  const loadOne = gather(async (ids: string[]) => {
    asked += 1;
    if (isDown) throw new Error("down");
    return new Map(ids.map((id) => [id, id]));
  });
  let nowMs = 1_000;
  t.mock.method(performance, "now", () => nowMs);
  await assert.rejects(loadOne("a"), /down/);
  await assert.rejects(loadOne("b"), (error) => error instanceof ServiceError && error.code === "unavailable");
  assert.equal(asked, 1);
  isDown = false;
  nowMs += 1_001;
  assert.equal(await loadOne("b"), "b");
});
