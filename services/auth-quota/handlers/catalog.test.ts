import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { after, before, test } from "node:test";
import { startAppWorld, type AppEnvironment } from "../testing/app-world.ts";

const proof = new Uint8Array(32).fill(5);

let world: AppEnvironment;
before(async () => {
  world = await startAppWorld();
});
after(() => world[Symbol.asyncDispose]());

test("the catalog that a relay took last is kept, with its hash, who took it and when; again it adds nothing", async () => {
  const { admin } = world.first;
  await assert.rejects(admin.getKeptCatalog({}), { code: "not_found" });
  await admin.keepCatalog({ content: "models: {}\n", takenBy: "relay-1", proof });
  const first = await admin.getKeptCatalog({});
  assert.deepEqual(
    [first.content, first.hash, first.takenBy, first.takenAt === undefined],
    ["models: {}\n", hash("sha256", "models: {}\n"), "relay-1", false],
  );
  await admin.keepCatalog({ content: "models: {}\n", takenBy: "relay-2", proof });
  assert.deepEqual(await admin.getKeptCatalog({}), first);
  const newProof = new Uint8Array(32).fill(6);
  await admin.keepCatalog({ content: "models: {}\n", takenBy: "relay-2", proof: newProof });
  assert.deepEqual(
    new Uint8Array((await admin.getKeptCatalog({})).proof),
    newProof,
    "by other credentials it is proven anew",
  );
  await admin.keepCatalog({ content: "other", takenBy: "relay-2", proof });
  const second = await admin.getKeptCatalog({});
  assert.deepEqual([second.content, second.takenBy, second.version > first.version], ["other", "relay-2", true]);
  await admin.keepCatalog({ content: "models: {}\n", takenBy: "relay-3", proof });
  assert.equal((await admin.getKeptCatalog({})).takenBy, "relay-3", "an older one that is in force again");
});

test("no more than fifty and the newest are kept, and none that is empty or too large", async () => {
  const { admin } = world.first;
  for (let index = 0; index < 60; index += 1)
    await admin.keepCatalog({ content: `catalog ${index}`, takenBy: "r", proof });
  assert.equal((await admin.getKeptCatalog({})).content, "catalog 59");
  for (const content of ["", "x".repeat(1_048_577)])
    await assert.rejects(admin.keepCatalog({ content, takenBy: "r", proof }), { code: "invalid_argument" });
  await assert.rejects(admin.keepCatalog({ content: "x", takenBy: "r".repeat(101), proof }), {
    code: "invalid_argument",
  });
  await assert.rejects(admin.keepCatalog({ content: "x", takenBy: "r" }), { code: "invalid_argument" });
});
