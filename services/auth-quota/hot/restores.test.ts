import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KeyStatus, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { Redis } from "ioredis";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { keyPrefix } from "../store/key-prefix.ts";
import { startAppWorld, type AppEnvironment, type Payer } from "../testing/app-world.ts";
import type { RelayLine } from "../testing/relay-line.ts";

let environment: AppEnvironment;
before(async () => {
  environment = await startAppWorld();
});
after(() => environment[Symbol.asyncDispose]());

async function authorize(line: RelayLine, { keyHash }: Payer): Promise<Verdict | undefined> {
  const [result] = await line.send([{ case: "authorize", value: { keyHash } }]);
  return result?.verdict;
}

const restores = async (): Promise<number> =>
  (await query(environment.ownerUrl, "SELECT restores FROM auth_quota.hot_store")).rows[0]?.restores;

/** What a backup had: the key as it was made, and without what was made since. At once, as a restore is. */
async function restoreTo({ keyId }: Payer, since: Payer, more = ""): Promise<void> {
  await query(
    environment.ownerUrl,
    `UPDATE auth_quota.key
     SET status = 'active', requests_per_minute = 0, addresses = '{}', tags = '{}', version = 1
     WHERE key_id = '${keyId}';
     DELETE FROM auth_quota.key WHERE key_id = '${since.keyId}'; ${more}`,
  );
}

/** Makes a kept change what the version before kept, which had no rates, addresses and tags of keys. */
async function keepAsBefore({ keyId }: Payer): Promise<void> {
  const redis = new Redis(environment.stores.redis.url);
  const kept = (await redis.hget(`${keyPrefix}:changes`, `key ${keyId}`)) ?? "";
  const [version = "", text = ""] = kept.split(/ (.*)/s);
  const {
    addresses: _addresses,
    requests_per_minute: _rate,
    tags: _tags,
    ...row
  } = JSON.parse(text) as Record<string, unknown>;
  await redis.hset(`${keyPrefix}:changes`, `key ${keyId}`, `${version} ${JSON.stringify(row)}`);
  redis.disconnect();
}

async function forgetChanges(): Promise<void> {
  const redis = new Redis(environment.stores.redis.url);
  await redis.del(`${keyPrefix}:changes`);
  redis.disconnect();
}

for (const [what, move] of [
  ["another place", () => query(environment.ownerUrl, "UPDATE auth_quota.hot_store SET place = 'another server'")],
  ["a newer epoch of the ledger", async () => void (environment.billing.ledgerEpoch += 1)],
] as const) {
  test(`${what}: what a restored database and Redis have both forgotten is as the backup says`, async () => {
    const payer = await environment.createPayer(1_000n);
    const since = await environment.createPayer(1_000n);
    using line = environment.first.openLine("relay_restored");
    const { keyId } = payer;
    for (const status of [KeyStatus.STOPPED, KeyStatus.ACTIVE, KeyStatus.STOPPED]) {
      await environment.first.admin.updateKey({ keyId, status });
    }
    assert.equal(await authorize(line, payer), Verdict.KEY_INVALID);
    assert.equal(await authorize(line, since), Verdict.OK);
    await until("where it is was noted", async () => {
      const { rows } = await query(environment.ownerUrl, "SELECT FROM auth_quota.hot_store WHERE ledger_epoch > 0");
      return rows.length === 1;
    });
    const known = await restores();
    await forgetChanges();
    await restoreTo(payer, since);
    await move();
    await until("the key works as the backup says", async () => (await authorize(line, payer)) === Verdict.OK);
    await until("the lost key does not work", async () => (await authorize(line, since)) === Verdict.KEY_INVALID);
    assert.equal(await restores(), known + 1);
    await environment.first.admin.updateKey({ keyId, status: KeyStatus.STOPPED });
    assert.equal(await authorize(line, payer), Verdict.KEY_INVALID, "a change is in force at once");
  });
}

test("what a restored database has forgotten comes back from Redis, but for what was changed in it since", async () => {
  const [stopped, used, made] = [
    await environment.createPayer(1_000n),
    await environment.createPayer(1_000n),
    await environment.createPayer(1_000n),
  ];
  using line = environment.first.openLine("relay_returned");
  const { admin } = environment.first;
  const addresses = ["192.0.2.7"];
  await admin.updateKey({
    keyId: stopped.keyId,
    status: KeyStatus.STOPPED,
    requestsPerMinute: 5,
    addresses,
    tags: ["a"],
  });
  await keepAsBefore(made);
  await admin.updateKey({ keyId: used.keyId, name: "in the gap" });
  await admin.updateAccount({ accountId: used.accountId, name: "in the gap", requestsPerMinute: 77 });
  const known = await restores();
  await restoreTo(
    stopped,
    made,
    `DELETE FROM auth_quota.account WHERE account_id = '${made.accountId}';
     UPDATE auth_quota.account SET name = 'as it was', version = 1 WHERE account_id = '${used.accountId}';
     UPDATE auth_quota.key SET name = 'since', updated_at = now(), version = 1 WHERE key_id = '${used.keyId}';
     UPDATE auth_quota.hot_store SET place = 'another server'`,
  );
  await until("it is noticed", async () => (await restores()) === known + 1);
  assert.equal(await authorize(line, stopped), Verdict.KEY_INVALID);
  assert.equal(await authorize(line, made), Verdict.OK);
  const [bounded] = (await admin.getKeys({ keyIds: [stopped.keyId] })).keys;
  assert.deepEqual([bounded?.requestsPerMinute, bounded?.addresses, bounded?.tags], [5, addresses, ["a"]]);
  const [account] = (await admin.getAccounts({ accountIds: [used.accountId] })).accounts;
  assert.deepEqual([account?.name, account?.requestsPerMinute], ["in the gap", 77]);
  assert.equal((await admin.getKeys({ keyIds: [used.keyId] })).keys[0]?.name, "since");
});

test("a key that a disk put back lacks comes back, though place and epoch are the same", async () => {
  const payer = await environment.createPayer(1_000n);
  const known = await restores();
  await query(environment.ownerUrl, `DELETE FROM auth_quota.key WHERE key_id = '${payer.keyId}'`);
  await until("it is noticed", async () => (await restores()) > known);
  assert.equal((await environment.first.admin.getKeys({ keyIds: [payer.keyId] })).keys.length, 1);
});

test("a disk that was put back shows by what Redis knows better, once, at the same place and epoch", async () => {
  const [stopped, made] = [await environment.createPayer(1_000n), await environment.createPayer(1_000n)];
  using line = environment.first.openLine("relay_old_disk");
  const { admin } = environment.first;
  const { keyId } = stopped;
  await admin.updateKey({ keyId, status: KeyStatus.STOPPED });
  const known = await restores();
  await restoreTo(stopped, made, `DELETE FROM auth_quota.account WHERE account_id = '${made.accountId}'`);
  await until("it is noticed", async () => (await restores()) > known);
  const statusOf = async () => (await admin.getKeys({ keyIds: [keyId] })).keys[0]?.status;
  assert.equal(await statusOf(), KeyStatus.STOPPED);
  assert.equal(await authorize(line, stopped), Verdict.KEY_INVALID);
  assert.equal(await authorize(line, made), Verdict.OK);
  for (const [status, verdict] of [
    [KeyStatus.ACTIVE, Verdict.OK],
    [KeyStatus.STOPPED, Verdict.KEY_INVALID],
  ] as const) {
    await admin.updateKey({ keyId, status });
    assert.equal(await authorize(line, stopped), verdict, "a change is in force at once");
  }
  await using second = await environment.startReplica();
  using other = second.openLine("relay_old_disk_other");
  assert.equal(await authorize(other, made), Verdict.OK);
  assert.equal(await restores(), known + 1);
});

test("a database that stays where it is keeps its versions, also when a replica starts", async () => {
  const known = await restores();
  const payer = await environment.createPayer(1_000n);
  await using second = await environment.startReplica();
  using line = second.openLine("relay_steady");
  assert.equal(await authorize(line, payer), Verdict.OK);
  const { rows } = await query(
    environment.ownerUrl,
    `SELECT version FROM auth_quota.key WHERE key_id = '${payer.keyId}'`,
  );
  assert.equal(String(rows[0]?.version), "1");
  assert.equal(await restores(), known);
});
