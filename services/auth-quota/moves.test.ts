import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { CallState, KeyStatus, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import { createRid } from "#shared/money/rid.ts";
import { until } from "#shared/testing/until.ts";
import { shardPrefixes } from "./store/key-prefix.ts";
import { query, startAppWorld, type AppEnvironment, type Payer, type Replica } from "./testing/app-world.ts";
import type { RelayLine } from "./testing/relay-line.ts";

const shards = 3;
const prefixes = shardPrefixes({ shards, number: 0 });
const record = new Uint8Array([1, 2, 3]);

let environment: AppEnvironment;
let second: Replica;
let redis: Redis;
before(async () => {
  environment = await startAppWorld({ REDIS_SHARDS: shards });
  second = await environment.startReplica();
  redis = new Redis(environment.stores.redis.url);
});
after(async () => {
  redis.disconnect();
  await second[Symbol.asyncDispose]();
  await environment[Symbol.asyncDispose]();
});

const homeOf = ({ accountId }: Payer): number => accountHash(accountId) % shards;
const otherThan = (shard: number): number => (shard + 1) % shards;
const markIn = (shard: number, { accountId }: Payer) => redis.hget(`${prefixes[shard]}:account:${accountId}`, "moved");
const reserve = (payer: Payer, rid: string) =>
  ({ case: "reserve", value: { rid, keyHash: payer.keyHash, model: "m", estimateNanos: 100n } }) as const;
const settle = ({ accountId, keyId }: Payer, rid: string) =>
  ({ case: "settle", value: { rid, accountId, keyId, costNanos: 40n, record } }) as const;

async function one(line: RelayLine, operation: Parameters<RelayLine["send"]>[0][number]) {
  const [result] = await line.send([operation]);
  assert.ok(result);
  return result;
}

async function moveTo(payer: Payer, shard: number): Promise<void> {
  await until("the account has moved", async () => {
    const moved = await environment.first.admin.moveAccount({ accountId: payer.accountId, shard });
    return !moved.isMoving && moved.shard === shard;
  });
}

test("an account leaves when its calls have ended and are booked; new ones wait until then", async () => {
  const payer = await environment.createPayer(10_000n);
  const [from, to] = [homeOf(payer), otherThan(homeOf(payer))];
  using line = environment.first.openLine("relay_moving");
  const [held, waiting] = [createRid(), createRid()];
  assert.equal((await one(line, reserve(payer, held))).verdict, Verdict.OK);
  const { accountId, keyId } = payer;
  const { admin } = environment.first;
  const begun = await admin.moveAccount({ accountId, shard: to });
  assert.deepEqual(
    [begun.shard, begun.isMoving, begun.openHolds, await markIn(from, payer)],
    [from, true, 1n, "leaving"],
  );
  assert.equal((await one(line, reserve(payer, waiting))).verdict, Verdict.RECALLED, "its relay asks again");
  const extended = await one(line, { case: "extend", value: { rid: held, accountId, totalNanos: 200n } });
  assert.equal(extended.verdict, Verdict.OK, "what is under way goes on");
  assert.equal((await one(line, settle(payer, held))).verdict, Verdict.OK);
  const settled = await admin.moveAccount({ accountId, shard: to });
  assert.deepEqual([settled.isMoving, settled.unpostedCalls], [true, 1n]);
  const booked = { balanceNanos: 9_960n, version: 2n };
  environment.billing.balances.set(accountId, { nanos: booked.balanceNanos, version: booked.version });
  await admin.post({
    accounts: [{ accountId, ...booked }],
    calls: [{ rid: held, accountId, keyId, bookedNanos: 40n, isFinal: true }],
  });
  await moveTo(payer, to);
  assert.deepEqual([await markIn(from, payer), await markIn(to, payer)], ["gone", null]);
  assert.equal((await one(line, reserve(payer, waiting))).verdict, Verdict.OK);
  assert.deepEqual(await redis.zrange(`${prefixes[to]}:session:relay_moving`, "0", "-1"), [waiting]);
  assert.equal((await admin.getHolds({ accountId })).availableNanos, 9_860n);
  const [audited] = (await admin.auditAccounts({ accountIds: [accountId] })).accounts;
  assert.equal(audited?.heldNanos, 100n);
});

test("a replica that has not heard of a move neither grants in the old shard nor takes its settings there", async () => {
  const payer = await environment.createPayer(10_000n);
  const [from, to] = [homeOf(payer), otherThan(homeOf(payer))];
  using line = second.openLine("relay_behind");
  assert.equal((await one(line, reserve(payer, createRid()))).verdict, Verdict.OK);
  await one(line, { case: "endSession", value: { relaySession: "relay_behind" } });
  await moveTo(payer, to);
  const rid = createRid();
  assert.equal((await one(line, reserve(payer, rid))).verdict, Verdict.OK);
  assert.deepEqual(await redis.zrange(`${prefixes[to]}:session:relay_behind`, "0", "-1"), [rid]);
  assert.equal((await one(line, settle(payer, rid))).verdict, Verdict.OK);
  const hashes = Buffer.alloc(4);
  hashes.writeUInt32BE(accountHash(payer.accountId));
  const rids = Buffer.from(rid.replaceAll("-", ""), "hex");
  const { states } = await one(line, { case: "lookupMany", value: { rids, accountHashes: hashes } });
  assert.deepEqual([...(states ?? [])], [CallState.SETTLED]);
  await moveBack(payer, from, rid);
  await second.admin.updateKey({ keyId: payer.keyId, status: KeyStatus.STOPPED });
  assert.equal((await one(line, reserve(payer, createRid()))).verdict, Verdict.KEY_INVALID);
});

/** Books the call that keeps it, and moves it home. */
async function moveBack(payer: Payer, shard: number, rid: string): Promise<void> {
  const { accountId, keyId } = payer;
  const call = { rid, accountId, keyId, bookedNanos: 40n, isFinal: true };
  await second.admin.post({ accounts: [{ accountId, balanceNanos: 9_960n, version: 2n }], calls: [call] });
  await moveTo(payer, shard);
  assert.equal(await markIn(shard, payer), null);
}

test("a move is given up by one to where the account is", async () => {
  const payer = await environment.createPayer(10_000n);
  const from = homeOf(payer);
  using line = environment.first.openLine("relay_staying");
  const rid = createRid();
  await one(line, reserve(payer, rid));
  await environment.first.admin.moveAccount({ accountId: payer.accountId, shard: otherThan(from) });
  await moveTo(payer, from);
  assert.equal((await one(line, reserve(payer, createRid()))).verdict, Verdict.OK);
  assert.deepEqual([await markIn(from, payer), await markIn(otherThan(from), payer)], [null, "gone"]);
});

test("PostgreSQL is restored to before a move: where the account is comes from the shards", async () => {
  const payer = await environment.createPayer(10_000n);
  const [from, to] = [homeOf(payer), otherThan(homeOf(payer))];
  await moveTo(payer, to);
  using line = environment.first.openLine("relay_restored");
  const rid = createRid();
  assert.equal((await one(line, reserve(payer, rid))).verdict, Verdict.OK);
  await query(environment.ownerUrl, `delete from auth_quota.account_shard where account_id = '${payer.accountId}'`);
  await until("the shard is forgotten and found again", async () => {
    const { verdict } = await one(line, reserve(payer, createRid()));
    return verdict === Verdict.OK && /taking it from Redis/.test(environment.logText());
  });
  assert.deepEqual([await markIn(from, payer), await markIn(to, payer)], ["gone", null]);
  assert.equal(await redis.zcard(`${prefixes[from]}:session:relay_restored`), 0, "nothing was granted there");
});

test("a shard that has lost its data marks who has left it before it grants again", async () => {
  const payer = await environment.createPayer(10_000n);
  const [from, to] = [homeOf(payer), otherThan(homeOf(payer))];
  await moveTo(payer, to);
  const names = await redis.keys(`${prefixes[from]}:*`);
  await redis.del(...names);
  await until("it grants again", async () => {
    const [generation, gate] = await redis.hmget(`${prefixes[from]}:service`, "generation", "gate");
    return generation !== null && gate === null;
  });
  assert.equal(await markIn(from, payer), "gone");
});

test("a shard that has lost the last seconds before an account left it hears again what of that is booked", async () => {
  const payer = await environment.createPayer(10_000n);
  const { accountId, keyId } = payer;
  const [from, to] = [homeOf(payer), otherThan(homeOf(payer))];
  using line = environment.first.openLine("relay_left");
  const rid = createRid();
  assert.equal((await one(line, reserve(payer, rid))).verdict, Verdict.OK);
  assert.equal((await one(line, settle(payer, rid))).verdict, Verdict.OK);
  const call = `${prefixes[from]}:call:${rid}`;
  const settled = await redis.get(call);
  const booked = { balanceNanos: 9_960n, version: 2n };
  environment.billing.balances.set(accountId, { nanos: booked.balanceNanos, version: booked.version });
  const post = () =>
    environment.first.admin.post({
      accounts: [{ accountId, ...booked }],
      calls: [{ rid, accountId, keyId, bookedNanos: 40n, isFinal: true }],
    });
  await post();
  await moveTo(payer, to);
  assert.match((await redis.get(call)) ?? "", /^posted/);
  const looked = await one(line, { case: "lookup", value: { rid, accountId } });
  assert.equal(looked.state, CallState.POSTED, "a relay that begins again hears of it, wherever that is known");
  await redis.set(call, settled ?? "");
  await until("it is booked there, too", async () => {
    await post();
    return (await redis.get(call))?.startsWith("posted");
  });
});

test("such a shard hears of charges within leases, too", async () => {
  const payer = await environment.createPayer(10_000_000n);
  const { accountId, keyId, keyHash } = payer;
  const [from, to] = [homeOf(payer), otherThan(homeOf(payer))];
  using line = environment.first.openLine("relay_leasing");
  const [rid, leaseRid] = [createRid(), createRid()];
  const lease = { rid: leaseRid, keyHash, estimateNanos: 10_000n, calls: 50 };
  await until("there is a lease", async () => (await one(line, { case: "lease", value: lease })).heldNanos > 0n);
  const charge = { rid, accountId, keyId, costNanos: 40n, record, isLeased: true, leaseRid };
  assert.equal((await one(line, { case: "settle", value: charge })).verdict, Verdict.OK);
  await one(line, { case: "release", value: { rid: leaseRid, accountId } });
  const prefix = prefixes[from] ?? "";
  const [book, account] = [`${keyId}.${rid.slice(0, 10)}`, `${prefix}:account:${accountId}`];
  const names = ["call", "costs", "owed"].map((kind) => `${prefix}:${kind}:${book}`);
  const kept = await Promise.all(names.map((name) => redis.dumpBuffer(name)));
  const owed = async () => [await redis.zscore(`${prefix}:outbox`, book), await redis.hget(account, "unposted")];
  assert.equal((await owed())[1], "40");
  const booked = { balanceNanos: 9_999_960n, version: 2n };
  environment.billing.balances.set(accountId, { nanos: booked.balanceNanos, version: booked.version });
  const calls = [{ rid, accountId, keyId, bookedNanos: 40n, isFinal: true, isLeased: true }];
  const post = () => environment.first.admin.post({ accounts: [{ accountId, ...booked }], calls });
  await post();
  await moveTo(payer, to);
  assert.deepEqual(await owed(), [null, "0"]);
  // It comes back without its last moments, and is marked again.
  for (const [index, bytes] of kept.entries()) await redis.restore(names[index] ?? "", 0, bytes ?? "", "REPLACE");
  await redis.zadd(`${prefix}:outbox`, Date.now(), book);
  await redis.hset(account, "unposted", 40);
  await until("it is booked there, too", async () => {
    await post();
    const [waiting, nanos] = await owed();
    return waiting === null && nanos === "0";
  });
});

test("only accounts that there are move, and only to shards that there are", async () => {
  const payer = await environment.createPayer(1n);
  const { admin } = environment.first;
  await assert.rejects(admin.moveAccount({ accountId: payer.accountId, shard: 3 }), { code: "invalid_argument" });
  await assert.rejects(admin.moveAccount({ accountId: "acct_nobody", shard: 1 }), { code: "not_found" });
});
