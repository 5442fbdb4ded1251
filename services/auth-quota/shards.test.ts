import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
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
let redis: Redis;
/** A payer in each shard. */
const payers: Payer[] = [];
before(async () => {
  environment = await startAppWorld({ REDIS_SHARDS: shards });
  redis = new Redis(environment.stores.redis.url);
  while (payers.filter(Boolean).length < shards) {
    const payer = await environment.createPayer(10_000n);
    payers[accountHash(payer.accountId) % shards] ??= payer;
  }
});
after(async () => {
  redis.disconnect();
  await environment[Symbol.asyncDispose]();
});

const reserveOf = ({ keyHash }: Payer, rid: string, estimateNanos = 100n, ip = "") =>
  ({ case: "reserve", value: { rid, keyHash, ip, model: "m", estimateNanos } }) as const;
const settleOf = ({ accountId, keyId }: Payer, rid: string, costNanos: bigint) =>
  ({ case: "settle", value: { rid, accountId, keyId, costNanos, record } }) as const;
const hashesOf = (owners: readonly Payer[]): Buffer => {
  const packed = Buffer.alloc(owners.length * 4);
  for (const [at, { accountId }] of owners.entries()) packed.writeUInt32BE(accountHash(accountId), at * 4);
  return packed;
};
const packed = (rids: readonly string[]): Buffer => Buffer.from(rids.join("").replaceAll("-", ""), "hex");
const verdictsOf = async (line: RelayLine, operations: Parameters<RelayLine["send"]>[0]): Promise<Verdict[]> =>
  (await line.send(operations)).map(({ verdict }) => verdict);
const holdsIn = (prefix: string, relay: string): Promise<string[]> =>
  redis.zrange(`${prefix}:session:${relay}`, "0", "-1");

test("a batch is decided by the shards of its accounts, and answered in its own order", async () => {
  using line = environment.first.openLine("relay_batch");
  const rids = payers.map(() => createRid());
  const reserves = rids.map((rid, at) => reserveOf(payers[at] as Payer, rid, BigInt(at + 1)));
  const results = await line.send([...reserves, reserveOf(payers[0] as Payer, createRid(), 1_000_000n)]);
  assert.deepEqual(
    results.map(({ verdict, heldNanos, accountId }) => [verdict, heldNanos, accountId]),
    [
      ...payers.map(({ accountId }, at) => [Verdict.OK, BigInt(at + 1), accountId]),
      [Verdict.BALANCE, 0n, payers[0]?.accountId],
    ],
  );
  for (const [at, prefix] of prefixes.entries()) assert.deepEqual(await holdsIn(prefix, "relay_batch"), [rids[at]]);
  assert.equal(await redis.exists("{auth-quota}:service"), 0, "no name of one shard");
  assert.deepEqual(
    await verdictsOf(
      line,
      rids.map((rid, at) => settleOf(payers[at] as Payer, rid, 1n)),
    ),
    [Verdict.OK, Verdict.OK, Verdict.OK],
  );
  const [looked] = await line.send([
    {
      case: "lookupMany",
      value: { rids: packed([...rids, createRid()]), accountHashes: hashesOf([...payers, payers[1] as Payer]) },
    },
  ]);
  assert.deepEqual([...(looked?.states ?? [])], [CallState.SETTLED, CallState.SETTLED, CallState.SETTLED, 0]);
  assert.equal((await environment.first.admin.getHolds({})).unpostedCalls, 3n);
  const calls = rids.map((rid, at) => ({ rid, ...ownerOf(payers[at] as Payer), bookedNanos: 1n, isFinal: true }));
  await environment.first.admin.post({ calls });
  assert.equal((await environment.first.admin.getHolds({})).unpostedCalls, 0n);
  const audit = await environment.first.admin.auditAccounts({ accountIds: payers.map(({ accountId }) => accountId) });
  assert.deepEqual(
    audit.accounts.map(({ accountId, heldNanos, unpostedNanos }) => [accountId, heldNanos, unpostedNanos]),
    payers.map(({ accountId }) => [accountId, 0n, 0n]),
  );
});

const ownerOf = ({ accountId, keyId }: Payer) => ({ accountId, keyId });

test("a relay of the version before names no account: the shard that knows the call answers", async () => {
  using line = environment.first.openLine("relay_before");
  const rids = payers.map(() => createRid());
  await line.send(rids.map((rid, at) => reserveOf(payers[at] as Payer, rid)));
  for (const rid of rids) {
    const results = await line.send([
      { case: "extend", value: { rid, totalNanos: 200n } },
      { case: "lookup", value: { rid } },
      { case: "release", value: { rid } },
      { case: "lookup", value: { rid } },
      { case: "extend", value: { rid, totalNanos: 300n } },
      { case: "checkpoint", value: { rid: createRid(), costNanos: 1n, record } },
    ]);
    assert.deepEqual(
      results.map(({ verdict, heldNanos, state }) => [verdict, heldNanos, state]),
      [
        [Verdict.OK, 200n, 0],
        [Verdict.OK, 0n, CallState.HELD],
        [Verdict.OK, 0n, 0],
        [Verdict.OK, 0n, CallState.RELEASED],
        [Verdict.NO_HOLD, 0n, 0],
        [Verdict.NO_HOLD, 0n, 0],
      ],
    );
  }
  const held = createRid();
  await line.send([reserveOf(payers[2] as Payer, held)]);
  const [looked] = await line.send([{ case: "lookupMany", value: { rids: packed([held, createRid()]) } }]);
  assert.deepEqual([...(looked?.states ?? [])], [CallState.HELD, 0]);
  assert.deepEqual(await verdictsOf(line, [{ case: "release", value: { rid: held } }]), [Verdict.OK]);
});

test("a release finds the shard by the key, also at a replica that has never seen it", async () => {
  await using fresh = await environment.startReplica();
  using line = environment.first.openLine("relay_released");
  using freshLine = fresh.openLine("relay_released");
  for (const payer of payers) {
    const rid = createRid();
    await line.send([reserveOf(payer, rid)]);
    const release = { case: "release", value: { rid, keyHash: payer.keyHash } } as const;
    assert.deepEqual(await verdictsOf(freshLine, [release]), [Verdict.OK]);
  }
  const nobody = { case: "release", value: { rid: createRid(), keyHash: new Uint8Array(32) } } as const;
  assert.deepEqual(await verdictsOf(freshLine, [nobody]), [Verdict.NO_HOLD]);
});

test("a relay is heard in every shard, whomever its calls concern; its end is one in all", async () => {
  using line = environment.first.openLine("relay_heard");
  await line.send([reserveOf(payers[0] as Payer, createRid())]);
  await until("it is heard in all", async () => {
    const scores = await Promise.all(prefixes.map((prefix) => redis.zscore(`${prefix}:sessions`, "relay_heard")));
    return scores.every((score) => score !== null);
  });
  await line.send([reserveOf(payers[1] as Payer, createRid())]);
  using other = environment.first.openLine("relay_after");
  assert.deepEqual(await verdictsOf(other, [{ case: "endSession", value: { relaySession: "relay_heard" } }]), [
    Verdict.OK,
  ]);
  for (const prefix of prefixes) assert.deepEqual(await holdsIn(prefix, "relay_heard"), []);
});

test("addresses are counted by each shard, those of unknown keys in the shard of the address", async () => {
  await using strict = await environment.startReplica({ IP_REQUESTS_PER_MINUTE: 2 });
  using line = strict.openLine("relay_rates");
  const ip = "192.0.2.7";
  const authorizeOf = (keyHash: Uint8Array) => ({ case: "authorize", value: { keyHash, ip } }) as const;
  const { OK, IP_RATE, KEY_INVALID } = Verdict;
  const home = accountHash(ip) % shards;
  const wrong = new Uint8Array(32).fill(9);
  const asked = async (keyHash: Uint8Array): Promise<Verdict | undefined> =>
    (await verdictsOf(line, [authorizeOf(keyHash)]))[0];
  assert.deepEqual([await asked(wrong), await asked(wrong), await asked(wrong)], [KEY_INVALID, KEY_INVALID, IP_RATE]);
  // Known by now, so that only their own shards count.
  const away = payers.filter((_, at) => at !== home);
  for (const { keyHash } of payers) await line.send([{ case: "authorize", value: { keyHash } }]);
  for (const { keyHash } of away) {
    assert.deepEqual([await asked(keyHash), await asked(keyHash), await asked(keyHash)], [OK, OK, IP_RATE]);
  }
  assert.equal(await asked((payers[home] as Payer).keyHash), IP_RATE, "the shard of the address has counted it");
});

test("a shard that has lost everything closes its own gate, restores its own holds, and opens again", async () => {
  using line = environment.first.openLine("relay_lost");
  const rids = payers.map(() => createRid());
  const results = await line.send(rids.map((rid, at) => reserveOf(payers[at] as Payer, rid, 4_000n)));
  const before = line.generation();
  const [lost, ...others] = payers as [Payer, ...Payer[]];
  environment.billing.progress = { lastSequence: 7n, bookedSequence: 6n };
  const names = await redis.keys("{auth-quota:0.0}*");
  await redis.del(...names);
  const isClosed = async (): Promise<boolean> =>
    (await line.send([reserveOf(lost, createRid())]))[0]?.verdict === Verdict.UNAVAILABLE &&
    line.generation() !== before &&
    (await redis.hget("{auth-quota:0.0}:service", "gate")) !== null;
  await until("its gate is closed", isClosed);
  for (const payer of others)
    assert.deepEqual(await verdictsOf(line, [reserveOf(payer, createRid(), 1n)]), [Verdict.OK]);
  const generations = [before, line.generation()].map((text) => text.split("."));
  assert.deepEqual(generations[0]?.slice(1), generations[1]?.slice(1), "of the others nothing is new");
  const restore = { rid: rids[0] as string, ...ownerOf(lost), heldNanos: 4_000n, holdSecret: results[0]?.holdSecret };
  assert.deepEqual(
    await verdictsOf(line, [{ case: "restore", value: { ...restore, holdSecret: restore.holdSecret ?? record } }]),
    [Verdict.OK],
  );
  environment.billing.progress = { lastSequence: 7n, bookedSequence: 7n };
  await until("it grants again", async () => {
    const [verdict] = await verdictsOf(line, [reserveOf(lost, createRid(), 1n)]);
    return verdict === Verdict.OK;
  });
  assert.deepEqual(await verdictsOf(line, [reserveOf(lost, createRid(), 6_500n)]), [Verdict.BALANCE], "it is held");
});

async function startWith(count: number): Promise<Replica> {
  return environment.startReplica({ REDIS_SHARDS: count });
}

test("another number of shards is refused at the start, and is changed while nothing is held", async () => {
  await assert.rejects(startWith(2), /REDIS_SHARDS is 2, and the hot money of this installation is in 3/);
  const { admin } = environment.first;
  await assert.rejects(admin.changeShards({ shards: 2 }), { code: "failed_precondition", message: /closed for maint/ });
  await admin.setMaintenance({ isMaintenance: true });
  await assert.rejects(admin.changeShards({ shards: 2 }), { code: "failed_precondition", message: /for 30 s/ });
  await query(environment.ownerUrl, "UPDATE auth_quota.maintenance SET changed_at = now() - interval '1 minute'");
  await assert.rejects(admin.changeShards({ shards: 2 }), { code: "failed_precondition", message: /holds are open/ });
  using line = environment.first.openLine("relay_ends");
  const [payer] = payers as [Payer];
  for (const relaySession of ["relay_lost", "relay_heard", "relay_batch", "relay_before", "relay_released"])
    await line.send([{ case: "endSession", value: { relaySession } }]);
  const settled = createRid();
  await line.send([reserveOf(payer, settled)]);
  await line.send([settleOf(payer, settled, 60n)]);
  await assert.rejects(admin.changeShards({ shards: 2 }), {
    message: /0 holds are open, and 1 charges are not booked/,
  });
  environment.billing.balances.set(payer.accountId, { nanos: 9_940n, version: 2n });
  await admin.post({ calls: [{ rid: settled, ...ownerOf(payer), bookedNanos: 60n, isFinal: true }] });
  await admin.changeShards({ shards: 2 });
  assert.match(await environment.first.app.outdated, /number of shards changed/);
  assert.deepEqual(await verdictsOf(line, [reserveOf(payer, createRid())]), [Verdict.UNAVAILABLE]);
  await assert.rejects(startWith(3), /is in 2/);
  await using second = await startWith(2);
  using secondLine = second.openLine("relay_second");
  await until("calls are granted by what is booked", async () => {
    const [verdict] = await verdictsOf(secondLine, [reserveOf(payer, createRid(), 9_940n)]);
    return verdict === Verdict.OK;
  });
  const of = accountHash(payer.accountId) % 2;
  assert.equal((await holdsIn(`{auth-quota:1.${of}}`, "relay_second")).length, 1);
});
