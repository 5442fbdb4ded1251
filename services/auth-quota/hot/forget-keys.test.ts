import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import { until } from "#shared/testing/until.ts";
import { connectPostgres } from "../store/postgres.ts";
import { connectRedis } from "../store/redis.ts";
import { createHotStore } from "../store/hot.ts";
import { createShards } from "../store/shards.ts";
import { keyPrefix } from "../store/key-prefix.ts";
import { startAppWorld, type AppEnvironment, type Payer } from "../testing/app-world.ts";
import { silentLog } from "../testing/hot-world.ts";
import { forgetDeletedKeys } from "./forget-keys.ts";

let environment: AppEnvironment;
before(async () => {
  environment = await startAppWorld();
});
after(() => environment[Symbol.asyncDispose]());

/** What another replica does every ten minutes, and what Redis has of a key. */
async function openForgetting() {
  await using resources = new AsyncDisposableStack();
  const database = resources.use(connectPostgres(environment.ownerUrl, silentLog));
  const redis = resources.use(connectRedis(environment.stores.redis.url, silentLog));
  await until("redis is ready", () => redis.status === "ready");
  const limits = { accountPerMinute: 600, ipPerMinute: 1_200, accountConcurrent: 0 };
  const shards = createShards([{ ...createHotStore(redis, limits), status: () => redis.status }]);
  const owned = resources.move();
  return {
    forget: () => forgetDeletedKeys(database, shards),
    hasHash: async ({ keyId }: Payer) => (await redis.exists(`${keyPrefix}:key:${keyId}`)) === 1,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function deleteKey({ keyId }: Payer, daysAgo: number): Promise<void> {
  await environment.first.admin.deleteKey({ keyId });
  await query(
    environment.ownerUrl,
    `UPDATE auth_quota.key SET updated_at = now() - ${daysAgo} * interval '1 day' WHERE key_id = '${keyId}'`,
  );
}

const hasRow = async ({ keyId }: Payer): Promise<boolean> =>
  (await query(environment.ownerUrl, `SELECT FROM auth_quota.key WHERE key_id = '${keyId}'`)).rows.length === 1;

test("a key is forgotten 400 days after it was deleted, in Redis too, and is refused as before", async () => {
  const [old, young, living] = [
    await environment.createPayer(1_000n),
    await environment.createPayer(1_000n),
    await environment.createPayer(1_000n),
  ];
  using line = environment.first.openLine("relay_forget");
  const authorize = async ({ keyHash }: Payer) =>
    (await line.send([{ case: "authorize", value: { keyHash } }]))[0]?.verdict;
  for (const payer of [old, young, living]) assert.equal(await authorize(payer), Verdict.OK);
  await environment.first.admin.reportRefusals({
    counts: [],
    calls: [{ rid: createRid(), keyId: old.keyId, reason: "key_deleted", status: 401, endpoint: "/v1/models" }],
  });
  await deleteKey(old, 401);
  await deleteKey(young, 399);
  await using forgetting = await openForgetting();
  assert.equal(await forgetting.forget(), 1n);
  assert.deepEqual(await Promise.all([old, young, living].map(hasRow)), [false, true, true]);
  assert.deepEqual(await Promise.all([old, young, living].map(forgetting.hasHash)), [false, true, true]);
  // This replica still knows whose it was.
  assert.equal(await authorize(old), Verdict.KEY_INVALID);
  assert.equal(await authorize(old), Verdict.KEY_INVALID);
  assert.equal(await authorize(young), Verdict.KEY_INVALID);
  assert.equal(await authorize(living), Verdict.OK);
  assert.equal(await forgetting.forget(), 0n);
});

test("a deleted key stays while money of it is held, or charged and not booked", async () => {
  const payer = await environment.createPayer(1_000n);
  const { accountId, keyId, keyHash } = payer;
  using line = environment.first.openLine("relay_held");
  const rid = createRid();
  const [held] = await line.send([
    { case: "reserve", value: { rid, keyHash, ip: "198.51.100.7", model: "m", estimateNanos: 500n } },
  ]);
  assert.equal(held?.verdict, Verdict.OK);
  await deleteKey(payer, 401);
  await using forgetting = await openForgetting();
  assert.equal(await forgetting.forget(), 0n);
  await line.send([
    { case: "settle", value: { rid, accountId, keyId, costNanos: 400n, record: Buffer.from("a record") } },
  ]);
  assert.equal(await forgetting.forget(), 0n);
  assert.ok((await hasRow(payer)) && (await forgetting.hasHash(payer)));
});
