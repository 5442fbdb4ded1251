import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import pg from "pg";
import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { query } from "#shared/testing/postgres.ts";
import { hashOf, startAppWorld, type AppEnvironment } from "./testing/app-world.ts";

let world: AppEnvironment;
let admin: AppEnvironment["first"]["admin"];
before(async () => {
  world = await startAppWorld();
  admin = world.first.admin;
});
after(() => world[Symbol.asyncDispose]());

const invalid = (message: RegExp) => ({ code: "invalid_argument", message });

async function createKey(): Promise<string> {
  const { account } = await admin.createAccount({ name: "owner" });
  const { key } = await admin.createKey({ accountId: account?.accountId ?? "", name: "k" });
  return key?.keyId ?? "";
}

test("an account is made once, with an id of its own or a given one", async () => {
  const { account } = await admin.createAccount({ name: "Acme", requestsPerMinute: 90 });
  assert.match(account?.accountId ?? "", /^acct_[0-9a-f]{24}$/);
  assert.deepEqual([account?.status, account?.requestsPerMinute], [AccountStatus.ACTIVE, 90]);
  assert.ok(account?.createdAt);
  await admin.createAccount({ name: "Given", accountId: "given-1" });
  const again = admin.createAccount({ name: "Given", accountId: "given-1" });
  await assert.rejects(again, { code: "already_exists", message: "account given-1 exists already" });
});

test("an account has at most 1,000 keys that are not deleted, however many are made at once", async () => {
  const { account } = await admin.createAccount({ name: "Many" });
  const accountId = account?.accountId ?? "";
  await query(
    world.ownerUrl,
    `INSERT INTO auth_quota.key (key_id, account_id, key_hash, secret_prefix, name)
     SELECT 'full_' || n, '${accountId}', sha256(('full' || n)::bytea), 'sk-full', ''
     FROM generate_series(1, 997) AS n`,
  );
  const making = Array.from({ length: 16 }, () => admin.createKey({ accountId, name: "k" }));
  const made = (await Promise.allSettled(making)).filter(({ status }) => status === "fulfilled");
  assert.equal(made.length, 3);
  const full = { code: "failed_precondition", message: "the account has 1000 keys already" };
  await assert.rejects(admin.createKey({ accountId, name: "k" }), full);
  // Every one of them is listed, so that it can be stopped.
  const { keys } = await admin.listKeys({ accountId });
  assert.equal(keys.length, 1_000);
  await admin.deleteKey({ keyId: "full_1" });
  assert.ok((await admin.createKey({ accountId, name: "k" })).secret);
});

test("how many calls may be under way is set for accounts and keys", async () => {
  const { account } = await admin.createAccount({ name: "Narrow", maxConcurrent: 5 });
  const accountId = account?.accountId ?? "";
  const { key } = await admin.createKey({ accountId, name: "k", maxConcurrent: 3 });
  const keyId = key?.keyId ?? "";
  assert.deepEqual([account?.maxConcurrent, key?.maxConcurrent], [5, 3]);
  assert.equal((await admin.updateAccount({ accountId, name: "Narrower" })).account?.maxConcurrent, 5);
  assert.equal((await admin.updateAccount({ accountId, maxConcurrent: 0 })).account?.maxConcurrent, 0);
  assert.equal((await admin.updateKey({ keyId, name: "k2" })).key?.maxConcurrent, 3);
  assert.equal((await admin.updateKey({ keyId, maxConcurrent: 100_000 })).key?.maxConcurrent, 100_000);
  assert.equal((await admin.getKeys({ keyIds: [keyId] })).keys[0]?.maxConcurrent, 100_000);
  const tooMany = invalid(/^max_concurrent must be 0 to 100000/);
  await assert.rejects(admin.createAccount({ name: "a", maxConcurrent: 100_001 }), tooMany);
  await assert.rejects(admin.updateKey({ keyId, maxConcurrent: -1 }), tooMany);
});

test("tags of a key are set, stay where they are not told, and are taken away", async () => {
  const { account } = await admin.createAccount({ name: "owner" });
  const accountId = account?.accountId ?? "";
  const { key } = await admin.createKey({ accountId, name: "k", tags: ["team=search", "prod", "prod"] });
  const keyId = key?.keyId ?? "";
  const tagsNow = async () => (await admin.getKeys({ keyIds: [keyId] })).keys[0]?.tags;
  assert.deepEqual(await tagsNow(), ["team=search", "prod"]);
  await admin.updateKey({ keyId, name: "other" });
  assert.deepEqual(await tagsNow(), ["team=search", "prod"]);
  await admin.updateKey({ keyId, tags: ["Suche/ä"] });
  assert.deepEqual(await tagsNow(), ["Suche/ä"]);
  await admin.updateKey({ keyId, clearTags: true });
  assert.deepEqual(await tagsNow(), []);
  const wrong = [["a b"], ["=x"], [""], ["a,b"], ["x".repeat(65)], Array.from({ length: 11 }, (_, at) => `t${at}`)];
  for (const tags of wrong) await assert.rejects(admin.updateKey({ keyId, tags }), invalid(/^tags m/));
  await assert.rejects(admin.updateKey({ keyId, tags: ["a"], clearTags: true }), invalid(/exclude/));
});

test("the rate and the addresses of a key are set, stay where they are not told, and are taken away", async () => {
  const { account } = await admin.createAccount({ name: "owner" });
  const accountId = account?.accountId ?? "";
  const addresses = ["192.0.2.0/24", "2001:DB8::1", "2001:db8:0::1"];
  const { key } = await admin.createKey({ accountId, name: "k", requestsPerMinute: 30, addresses });
  const keyId = key?.keyId ?? "";
  const told = async () => {
    const { keys } = await admin.getKeys({ keyIds: [keyId] });
    return [keys[0]?.requestsPerMinute, keys[0]?.addresses];
  };
  assert.deepEqual(await told(), [30, ["192.0.2.0/24", "2001:db8::1"]]);
  await admin.updateKey({ keyId, name: "k2" });
  assert.deepEqual(await told(), [30, ["192.0.2.0/24", "2001:db8::1"]]);
  await admin.updateKey({ keyId, requestsPerMinute: 0, addresses: ["192.0.2.7"] });
  assert.deepEqual(await told(), [0, ["192.0.2.7"]]);
  await admin.updateKey({ keyId, clearAddresses: true });
  assert.deepEqual(await told(), [0, []]);
  const wrong = [
    { addresses: ["192.0.2.7/24"] },
    { addresses: Array.from({ length: 65 }, (_, at) => `192.0.2.${at}`) },
  ];
  for (const change of wrong) await assert.rejects(admin.updateKey({ keyId, ...change }), invalid(/^addresses m/));
  await assert.rejects(admin.updateKey({ keyId, addresses: ["::1"], clearAddresses: true }), invalid(/exclude/));
  await assert.rejects(admin.updateKey({ keyId, requestsPerMinute: 1_000_001 }), invalid(/^requests_per_minute/));
});

test("an account's name, status and limit change apart from each other; what is not set stays", async () => {
  const { account } = await admin.createAccount({ name: "Before", requestsPerMinute: 5 });
  const accountId = account?.accountId ?? "";
  const change = async (fields: object) => {
    const { account: changed } = await admin.updateAccount({ accountId, ...fields });
    return [changed?.name, changed?.status, changed?.requestsPerMinute];
  };
  assert.deepEqual(await change({ name: "After" }), ["After", AccountStatus.ACTIVE, 5]);
  assert.deepEqual(await change({ status: AccountStatus.SUSPENDED }), ["After", AccountStatus.SUSPENDED, 5]);
  assert.deepEqual(await change({ requestsPerMinute: 0 }), ["After", AccountStatus.SUSPENDED, 0]);
});

test("accounts are listed by id in pages", async () => {
  for (const accountId of ["page-a", "page-B", "page-c"]) await admin.createAccount({ name: "p", accountId });
  const idsAfter = async (afterAccountId: string, limit: number) =>
    (await admin.listAccounts({ afterAccountId, limit })).accounts.map((account) => account.accountId);
  assert.deepEqual(await idsAfter("page-", 2), ["page-B", "page-a"]);
  assert.deepEqual(await idsAfter("page-a", 2), ["page-c"]);
  assert.deepEqual(await idsAfter("zzz", 0), []);
});

test("accounts are told by their ids, in the order asked, without those that do not exist", async () => {
  for (const accountId of ["told-a", "told-b"]) await admin.createAccount({ name: `name of ${accountId}`, accountId });
  const { accounts } = await admin.getAccounts({ accountIds: ["told-b", "told-none", "told-a"] });
  assert.deepEqual(
    accounts.map(({ accountId, name }) => [accountId, name]),
    [
      ["told-b", "name of told-b"],
      ["told-a", "name of told-a"],
    ],
  );
  assert.deepEqual((await admin.getAccounts({})).accounts, []);
});

test("a search finds accounts whose id or name holds the text in any case, in pages; no character is a wildcard", async () => {
  const made = { "find-1": "100% Miller_Ltd", "find-2": "1000 MILLER-Ltd", "find-3": String.raw`back\slash` };
  for (const [accountId, name] of Object.entries(made)) await admin.createAccount({ name, accountId });
  const idsOf = async (search: string, afterAccountId = "", limit = 0) =>
    (await admin.listAccounts({ search, afterAccountId, limit })).accounts.map(({ accountId }) => accountId);
  assert.deepEqual(await idsOf("FIND-"), ["find-1", "find-2", "find-3"]);
  assert.deepEqual(await idsOf("find-", "", 2), ["find-1", "find-2"]);
  assert.deepEqual(await idsOf("find-", "find-2", 2), ["find-3"]);
  assert.deepEqual(await idsOf("miLLer"), ["find-1", "find-2"]);
  assert.deepEqual(await idsOf("00%"), ["find-1"]);
  assert.deepEqual(await idsOf("ller_ltd"), ["find-1"]);
  assert.deepEqual(await idsOf(String.raw`k\s`), ["find-3"]);
});

test("a key's secret has 256 random bits, is told once and is stored as its hash only", async () => {
  const { account } = await admin.createAccount({ name: "owner" });
  const accountId = account?.accountId ?? "";
  const { key, secret } = await admin.createKey({ accountId, name: "laptop", models: ["m", "m", "n"] });
  assert.match(secret, /^sk-[A-Za-z0-9_-]{43}$/);
  assert.match(key?.keyId ?? "", /^key_[0-9a-f]{24}$/);
  assert.equal(key?.secretPrefix, secret.slice(0, 10));
  assert.deepEqual(key?.models, ["m", "n"]);
  assert.equal(key?.limitNanos, undefined);

  const client = new pg.Client({ connectionString: world.ownerUrl });
  await client.connect();
  const { rows } = await client.query("select k::text as row, key_hash from auth_quota.key k where key_id = $1", [
    key?.keyId,
  ]);
  await client.end();
  assert.deepEqual(rows[0].key_hash, Buffer.from(hashOf(secret)));
  assert.ok(!rows[0].row.includes(secret.slice(10)));
});

test("a key's fields change apart from each other, and each can be taken away", async () => {
  const keyId = await createKey();
  const update = async (fields: object) => (await admin.updateKey({ keyId, ...fields })).key;
  const expiresAt = timestampFromMs(1_900_000_000_123);
  const full = await update({ name: "n", status: KeyStatus.STOPPED, expiresAt, limitNanos: 7n, models: ["m"] });
  assert.deepEqual(
    [full?.name, full?.status, full?.expiresAt, full?.limitNanos, full?.models],
    ["n", KeyStatus.STOPPED, expiresAt, 7n, ["m"]],
  );
  const same = await update({});
  assert.deepEqual([same?.limitNanos, same?.models, same?.expiresAt], [7n, ["m"], expiresAt]);
  const bare = await update({ clearExpiry: true, clearLimit: true, clearModels: true, status: KeyStatus.ACTIVE });
  assert.deepEqual(
    [bare?.name, bare?.status, bare?.expiresAt, bare?.limitNanos, bare?.models],
    ["n", KeyStatus.ACTIVE, undefined, undefined, []],
  );
});

test("a deleted key stays deleted, and deleting it again is the same", async () => {
  const keyId = await createKey();
  assert.equal((await admin.deleteKey({ keyId })).key?.status, KeyStatus.DELETED);
  assert.equal((await admin.deleteKey({ keyId })).key?.status, KeyStatus.DELETED);
  const revival = admin.updateKey({ keyId, status: KeyStatus.ACTIVE });
  await assert.rejects(revival, { code: "failed_precondition", message: `key ${keyId} is deleted and stays so` });
});

test("keys are listed newest first, deleted ones only when asked for", async () => {
  const { account } = await admin.createAccount({ name: "owner" });
  const accountId = account?.accountId ?? "";
  const ids: string[] = [];
  for (const name of ["first", "second", "third"]) {
    ids.unshift((await admin.createKey({ accountId, name })).key?.keyId ?? "");
  }
  await admin.deleteKey({ keyId: ids[1] ?? "" });
  const list = async (includeDeleted: boolean) =>
    (await admin.listKeys({ accountId, includeDeleted })).keys.map((key) => key.keyId);
  assert.deepEqual(await list(true), ids);
  assert.deepEqual(await list(false), [ids[0], ids[2]]);
});

test("keys are told by their ids, in the order asked, deleted ones too, without those that do not exist", async () => {
  const [one, other] = [await createKey(), await createKey()];
  await admin.deleteKey({ keyId: other });
  const { keys } = await admin.getKeys({ keyIds: [other, "key_none", one] });
  assert.deepEqual(
    keys.map(({ keyId, status }) => [keyId, status]),
    [
      [other, KeyStatus.DELETED],
      [one, KeyStatus.ACTIVE],
    ],
  );
});

/** Gives keys prefixes of their own, which secrets have by chance only. */
async function setPrefixes(prefixes: Map<string, string>): Promise<void> {
  const client = new pg.Client({ connectionString: world.ownerUrl });
  await client.connect();
  for (const [keyId, prefix] of prefixes) {
    await client.query("update auth_quota.key set secret_prefix = $2 where key_id = $1", [keyId, prefix]);
  }
  await client.end();
}

test("keys are found by how their secrets begin, newest first, deleted ones too; no character is a wildcard", async () => {
  const ids = [await createKey(), await createKey(), await createKey(), await createKey()];
  const prefixes = ["sk-a_bcdef", "sk-aXbcdef", "sk-a_bcXYZ", "sk-A_bcdef"];
  await setPrefixes(new Map(ids.map((id, index) => [id, prefixes[index] ?? ""])));
  await admin.deleteKey({ keyId: ids[0] ?? "" });
  const find = async (secretPrefix: string) => (await admin.findKeys({ secretPrefix })).keys.map(({ keyId }) => keyId);
  assert.deepEqual(await find("sk-a_bc"), [ids[2], ids[0]]);
  assert.deepEqual(await find("sk-a_bcdef"), [ids[0]]);
  assert.deepEqual(await find("k-a_bc"), []);
});

test("at most 100 keys are found", async () => {
  const client = new pg.Client({ connectionString: world.ownerUrl });
  await client.connect();
  await client.query(`with a as (insert into auth_quota.account (account_id, name) values ('many', 'm') returning *)
    insert into auth_quota.key (key_id, account_id, key_hash, secret_prefix, name)
    select 'many_' || n, account_id, sha256(n::text::bytea), 'sk-many' || n, '' from a, generate_series(1, 101) n`);
  await client.end();
  assert.equal((await admin.findKeys({ secretPrefix: "sk-many" })).keys.length, 100);
});

test("a prefix is 6 to 10 characters, and the refusal does not repeat it: it may be a whole secret", async () => {
  const refusal = invalid(/^secret_prefix must be the first 6 to 10 characters of a secret$/);
  const wholeSecret = `sk-${"x".repeat(43)}`;
  for (const secretPrefix of ["", "sk-12", "sk-12345678", "sk-1234%", "sk-12\\34", wholeSecret]) {
    await assert.rejects(admin.findKeys({ secretPrefix }), refusal);
  }
  assert.ok(!world.logText().includes(wholeSecret));
});

test("what does not exist is not found", async () => {
  const missing = { code: "not_found" };
  await assert.rejects(admin.updateAccount({ accountId: "acct_none", name: "x" }), missing);
  await assert.rejects(admin.createKey({ accountId: "acct_none" }), missing);
  await assert.rejects(admin.listKeys({ accountId: "acct_none" }), missing);
  await assert.rejects(admin.updateKey({ keyId: "key_none", name: "x" }), missing);
  await assert.rejects(admin.deleteKey({ keyId: "key_none" }), missing);
});

test("input that breaks a rule is refused with the name of the field and the rule", async () => {
  await assert.rejects(admin.createAccount({ name: "" }), invalid(/^name must be 1 to 200 characters/));
  await assert.rejects(admin.createAccount({ name: "x".repeat(201) }), invalid(/^name must be/));
  await assert.rejects(admin.createAccount({ name: "a\nb" }), invalid(/control character/));
  await assert.rejects(admin.createAccount({ name: "a", accountId: "a b" }), invalid(/^account_id must be/));
  await assert.rejects(admin.createAccount({ name: "a", requestsPerMinute: -1 }), invalid(/^requests_per_minute must/));
  await assert.rejects(admin.listAccounts({ limit: 1_001 }), invalid(/^limit must be 1 to 1000/));
  await assert.rejects(admin.listAccounts({ limit: -1 }), invalid(/^limit must be/));
  await assert.rejects(admin.listAccounts({ search: "x".repeat(201) }), invalid(/^search must be 0 to 200 characters/));
  const many = Array.from({ length: 1_001 }, (_, index) => `id-${index}`);
  await assert.rejects(admin.getAccounts({ accountIds: many }), invalid(/^account_ids may name at most 1000/));
  await assert.rejects(admin.getKeys({ keyIds: many }), invalid(/^key_ids may name at most 1000/));
  await assert.rejects(admin.getAccounts({ accountIds: ["a b"] }), invalid(/^account_ids must be 1 to 64/));
  await assert.rejects(admin.getKeys({ keyIds: [""] }), invalid(/^key_ids must be 1 to 64/));
  const keyId = await createKey();
  const refused: [object, RegExp][] = [
    [{ status: KeyStatus.DELETED }, /^status must be ACTIVE or STOPPED; DeleteKey deletes/],
    [{ limitNanos: -1n }, /^limit_nanos must be 0 to 9007199254740991/],
    [{ limitNanos: 2n ** 53n }, /^limit_nanos must be/],
    [{ expiresAt: timestampFromMs(-1) }, /^expires_at must lie between/],
    [{ expiresAt: timestampFromMs(1), clearExpiry: true }, /^expires_at and clear_expiry exclude each other/],
    [{ limitNanos: 1n, clearLimit: true }, /^limit_nanos and clear_limit exclude each other/],
    [{ models: ["m"], clearModels: true }, /^models and clear_models exclude each other/],
    [{ models: [""] }, /^models must hold names/],
    [{ models: ["a\nb"] }, /^models must hold names/],
    [{ models: Array.from({ length: 201 }, (_, index) => `m${index}`) }, /^models may name at most 200/],
  ];
  for (const [fields, message] of refused) {
    await assert.rejects(admin.updateKey({ keyId, ...fields }), invalid(message));
  }
});
