import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { GetKeptCatalogResponseSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { createLog } from "#shared/process/log.ts";
import type { CatalogFile } from "./follow.ts";
import { catalogProof, createKeeping, startCatalog } from "./last-good.ts";

const log = createLog("test", "silent");
const environment = { OPENAI_KEY: "sk-one-of-many-letters", OTHER_KEY: "EMPTY", HOME: "of-the-relay-itself" };
const content = "kept: {credential: {env: OPENAI_KEY}}";
const fileText = "mien: {credential: {env: OPENAI_KEY}}\nother: {credential: {env: 'OTHER_KEY'}}";
const keptAs = (text: string, proof: Uint8Array = catalogProof(text, environment)) =>
  create(GetKeptCatalogResponseSchema, { version: 7n, hash: "ab", content: text, proof, takenBy: "pod-1" });
const kept = keptAs(content);
const starting = { readText: () => fileText, environment, log };
const refusal = new Error("catalog.yaml:3: mien is not a known field");

/** A file that cannot be used; what is begun with instead. */
function brokenFile() {
  const begun: string[] = [];
  const open = (fallback?: string): { isStale: () => boolean } => {
    if (fallback === undefined) throw refusal;
    begun.push(fallback);
    return { isStale: () => true };
  };
  return { begun, open };
}

const keeperOf = (answers: (typeof kept | Error)[]) => ({
  getKeptCatalog: async () => {
    const answer = answers.shift() ?? new Error("asked too often");
    if (answer instanceof Error) throw answer;
    return answer;
  },
  keepCatalog: () => Promise.reject(new Error("not asked")),
});

const away = new ServiceError("unavailable", "auth-quota does not answer");

test("a relay whose file cannot be used begins with the kept catalog, as soon as auth-quota answers", async () => {
  const { begun, open } = brokenFile();
  await startCatalog(open, keeperOf([away, away, kept]), starting, 0);
  assert.deepEqual(begun, [content]);
});

test("when none was kept, or auth-quota stays away, the file's own error is thrown", async () => {
  const { open } = brokenFile();
  await assert.rejects(startCatalog(open, keeperOf([new ServiceError("not_found", "none")]), starting, 0), refusal);
  await assert.rejects(startCatalog(open, keeperOf(Array.from({ length: 30 }, () => away)), starting, 0), refusal);
});

test("when the kept one cannot be used here, both reasons are told", async () => {
  const open = (fallback?: string): never => {
    throw fallback === undefined ? refusal : new Error("credential OTHER_KEY is not set");
  };
  await assert.rejects(startCatalog(open, keeperOf([kept]), starting, 0), /mien is not[^]*OTHER_KEY is not set/);
});

test("one that is not proven by this relay's credentials, or names others than the file, is not used", async () => {
  const begin = async (offered: typeof kept): Promise<void> => {
    const { begun, open } = brokenFile();
    await assert.rejects(startCatalog(open, keeperOf([offered]), starting, 0), (error: Error) => {
      assert.match(error.message, /mien is not[^]*not used: it (?:is not proven|names credentials)/);
      assert.doesNotMatch(error.message, /sk-/);
      return true;
    });
    assert.deepEqual(begun, []);
  };
  await begin(keptAs(content, new Uint8Array()));
  await begin(keptAs(content, new Uint8Array(32)));
  await begin(keptAs(content, catalogProof(content, { ...environment, OPENAI_KEY: "sk-guessed" })));
  await begin(keptAs(content, catalogProof(`${content}\n`, environment)));
  await begin(keptAs("stolen: {credential: {env: HOME}}"));
  await begin(keptAs('stolen: {"credential": {"file": "/etc/hostname"}}'));
  await begin(keptAs("stolen:\n  credential:\n    env: OTHER_KEY"));
  await begin(keptAs("stolen: {}"));
});

test("a file that can be used asks nobody", async () => {
  const catalog = { isStale: () => false };
  assert.equal(await startCatalog(() => catalog, keeperOf([]), starting, 0), catalog);
});

function keeping(first: Partial<CatalogFile>) {
  const now = { contentHash: "1", text: "one", loadedAt: new Date(), problem: "", ...first };
  const given: string[] = [];
  const failures: Error[] = [];
  const keepCatalog = async ({ content }: { content?: string }) => {
    const failure = failures.pop();
    if (failure) throw failure;
    given.push(content ?? "");
    return {} as never;
  };
  const keeper = { ...keeperOf([]), keepCatalog };
  const pass = createKeeping(keeper, { file: () => now }, { takenBy: "pod-1", environment, log });
  return { now, given, failures, pass };
}

test("each catalog that is taken is kept once, and again until it is", async () => {
  const { now, given, failures, pass } = keeping({});
  failures.push(away);
  for (let time = 0; time < 3; time += 1) await pass();
  Object.assign(now, { contentHash: "2", text: "two" });
  for (let time = 0; time < 2; time += 1) await pass();
  assert.deepEqual(given, ["one", "two"]);
});

test("a catalog that is refused, and the kept one that is in use instead, are not kept anew", async () => {
  const { now, given, pass } = keeping({ problem: "refused" });
  await pass();
  Object.assign(now, { contentHash: "2", text: "two", problem: "" });
  await pass();
  assert.deepEqual(given, ["two"]);
});
