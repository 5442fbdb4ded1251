import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Redis } from "ioredis";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import { createRid } from "#shared/money/rid.ts";
import { until } from "#shared/testing/until.ts";
import { shardPrefixes } from "./store/key-prefix.ts";
import { startAppWorld, type AppEnvironment, type Payer } from "./testing/app-world.ts";
import { startRedisCluster, type RedisCluster } from "./testing/redis-cluster.ts";

// More than masters: names fall into slots as it happens, and each master must have one at least.
const shards = 6;
const prefixes = shardPrefixes({ shards, number: 0 });
const failoverMs = 30_000;

type Master = RedisCluster["master"];

const resources = new AsyncDisposableStack();
after(() => resources.disposeAsync());
let cluster: RedisCluster;
let environment: AppEnvironment;
/** Which master has each shard, and an account of it. */
let homes: { master: Master; prefix: string; payer: Payer }[];
before(async () => {
  // No failover is tested here: a node that is slow must not be taken for dead, or calls of its shards are refused.
  cluster = resources.use(await startRedisCluster({ nodeTimeoutMs: 60_000 }));
  environment = resources.use(await startAppWorld({ REDIS_URL: cluster.url, REDIS_SHARDS: shards }));
  const payers: Payer[] = [];
  while (payers.filter(Boolean).length < shards) {
    const payer = await environment.createPayer(1_000_000n);
    payers[accountHash(payer.accountId) % shards] ??= payer;
  }
  homes = await Promise.all(
    prefixes.map(async (prefix, index) => ({ master: await masterOf(prefix), prefix, payer: payers[index] as Payer })),
  );
});

async function masterOf(prefix: string): Promise<Master> {
  const slot = await cluster.master.admin.cluster("KEYSLOT", prefix);
  const owner = (await cluster.master.admin.cluster("SLOTS")).find(([from, to]) => from <= slot && slot <= to)?.[2];
  const found = [cluster.master, ...cluster.others].find(({ port }) => port === owner?.[1]);
  if (!found) throw new Error(`nobody has ${prefix}`);
  return found;
}

const reserveOf = ({ keyHash }: Payer, estimateNanos = 10n) =>
  ({ case: "reserve", value: { rid: createRid(), keyHash, model: "m", estimateNanos } }) as const;

/** Asks for a hold of 10 of every payer until it is told to stop; counts what was granted and what was refused. */
function reserveOn(relaySession: string) {
  const line = resources.use(environment.first.openLine(relaySession));
  const granted = homes.map(() => 0);
  const refused = homes.map(() => 0);
  let isOver = false;
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const results = await line.send(homes.map(({ payer }) => reserveOf(payer)));
      for (const [at, { verdict }] of results.entries()) {
        if (verdict === Verdict.OK) granted[at] = (granted[at] ?? 0) + 1;
        else refused[at] = (refused[at] ?? 0) + 1;
      }
    }
  };
  const loops = Promise.all([loop(), loop(), loop()]);
  const grow = async (which: number[]): Promise<void> => {
    const before = which.map((at) => granted[at] ?? 0);
    const hasGrown = (): boolean => which.every((at, index) => (granted[at] ?? 0) > (before[index] ?? 0) + 20);
    await until("holds are granted", hasGrown, failoverMs);
  };
  return { granted, refused, grow, end: () => ((isOver = true), loops) };
}

const all = prefixes.map((_, at) => at);

/** Ends what a load holds; each account must hold what was granted, and at most what was refused or lost beside it. */
async function checkHeld(load: ReturnType<typeof reserveOn>, relaySession: string): Promise<void> {
  for (const [at, { payer }] of homes.entries()) {
    const { openHolds, heldNanos } = await environment.first.admin.getHolds({ accountId: payer.accountId });
    assert.equal(heldNanos, openHolds * 10n);
    const [granted = 0, refused = 0] = [load.granted[at], load.refused[at]];
    assert.ok(openHolds >= granted && openHolds <= granted + refused, `${openHolds} held, ${granted} granted`);
  }
  const line = resources.use(environment.first.openLine(`${relaySession}_end`));
  await until("all holds are ended", async () => {
    const [result] = await line.send([{ case: "endSession", value: { relaySession } }]);
    return result?.verdict === Verdict.OK && (await environment.first.admin.getHolds({})).openHolds === 0n;
  });
}

test("every master has shards, and a batch over all of them is exact", async () => {
  assert.equal(new Set(homes.map(({ master }) => master)).size, 3);
  const load = reserveOn("relay_all");
  await load.grow(all);
  await load.end();
  assert.deepEqual(
    load.refused,
    all.map(() => 0),
  );
  await checkHeld(load, "relay_all");
});

test("a slot is moved while calls run: its shard is refused meanwhile, and nothing is lost or made twice", async () => {
  const [moving] = homes as [(typeof homes)[number]];
  const { master: from, prefix } = moving;
  const to = [cluster.master, ...cluster.others].find((node) => node !== from) as Master;
  const load = reserveOn("relay_moved");
  await load.grow(all);
  const slot = await from.admin.cluster("KEYSLOT", prefix);
  const [fromId, toId] = [await from.admin.cluster("MYID"), await to.admin.cluster("MYID")];
  await to.admin.cluster("SETSLOT", slot, "IMPORTING", fromId);
  await from.admin.cluster("SETSLOT", slot, "MIGRATING", toId);
  for (;;) {
    const keys = await from.admin.cluster("GETKEYSINSLOT", slot, 100);
    if (keys.length === 0) break;
    await from.admin.call("MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...keys.map(String));
  }
  await until("calls of its shard are refused", () => load.refused[0] !== 0);
  for (const node of [to, from, cluster.master, ...cluster.others])
    await node.admin.cluster("SETSLOT", slot, "NODE", toId);
  await load.grow(all);
  await load.end();
  assert.equal(
    load.refused.slice(1).reduce((sum, count) => sum + count, 0),
    0,
    "the others go on",
  );
  moving.master = to;
  await checkHeld(load, "relay_moved");
  const gate = new Redis(to.url);
  assert.equal(await gate.hget(`${prefix}:service`, "gate"), null, "nothing was lost");
  gate.disconnect();
});

test("a master is killed: the accounts of its shards are refused, all others go on, and nothing is lost", async () => {
  const dead = cluster.others.find((node) => homes.some(({ master }) => master === node)) as Master;
  const lost = all.filter((at) => homes[at]?.master === dead);
  const others = all.filter((at) => !lost.includes(at));
  const load = reserveOn("relay_killed");
  await load.grow(all);
  await dead.admin.config("SET", "appendfsync", "always");
  await load.grow(all);
  const before = others.map((at) => load.refused[at]);
  await dead.kill();
  await load.grow(others);
  await load.grow(others);
  assert.deepEqual(
    others.map((at) => load.refused[at]),
    before,
    "no call of the others is refused",
  );
  await dead.restart();
  await dead.admin.connect();
  await load.grow(all);
  await load.end();
  await checkHeld(load, "relay_killed");
});

test("a master is emptied: the gates of its shards close and open again, all others go on", async () => {
  const [emptied] = cluster.others as [Master];
  const lost = all.filter((at) => homes[at]?.master === emptied);
  const others = all.filter((at) => !lost.includes(at));
  const load = reserveOn("relay_emptied");
  await load.grow(all);
  environment.billing.progress = { lastSequence: 3n, bookedSequence: 2n };
  const before = others.map((at) => load.refused[at]);
  await emptied.admin.flushall();
  const prefixesOf = lost.map((at) => prefixes[at] ?? "");
  await until("its gates are closed", async () => {
    const gates = await Promise.all(prefixesOf.map((prefix) => emptied.admin.hget(`${prefix}:service`, "gate")));
    return gates.every((gate) => gate !== null);
  });
  await load.grow(others);
  environment.billing.progress = { lastSequence: 3n, bookedSequence: 3n };
  await load.grow(all);
  await load.end();
  const after = others.map((at) => load.refused[at]);
  assert.deepEqual(after, before, "no call of the others is refused");
  for (const at of others) {
    const { openHolds } = await environment.first.admin.getHolds({ accountId: homes[at]?.payer.accountId ?? "" });
    assert.equal(openHolds, BigInt(load.granted[at] ?? 0));
  }
});
