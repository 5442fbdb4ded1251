import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fundedActor, newRid, startHotWorld, type HotEnvironment } from "../testing/hot-world.ts";
import { auditCalls } from "./audit-calls.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 100_000, ipPerMinute: 100_000 });
});
after(() => world[Symbol.asyncDispose]());

async function auditOf(account: string) {
  const { accounts, isCounted } = await auditCalls(world.redis, [account]);
  assert.equal(isCounted, true);
  const [audited] = accounts;
  assert.ok(audited);
  return audited;
}

test("what an account is kept to hold and to owe is what its calls add up to, in every state", async () => {
  const payer = await fundedActor(world.hot, 10_000);
  const [held, grown, settled, posted, released] = Array.from({ length: 5 }, newRid) as [
    string,
    string,
    string,
    string,
    string,
  ];
  for (const rid of [held, grown, settled, posted, released]) await payer.reserve(rid, 100);
  await payer.extend(grown, 250);
  await payer.settle(settled, 70);
  await payer.settle(posted, 60);
  await payer.post(posted, 60);
  await payer.release(released);
  const { kept, counted, isMoving } = await auditOf(payer.account);
  assert.deepEqual(counted, { heldNanos: 350n, unpostedNanos: 70n });
  assert.equal(isMoving, false);
  assert.deepEqual(kept, {
    isLoaded: true,
    postedNanos: 10_000n,
    postedVersion: 1n,
    heldNanos: 350n,
    unpostedNanos: 70n,
    openHolds: 2n,
    unpostedCalls: 1n,
  });
});

test("a charge at the last checkpoint of a lost relay is owed until its final is booked", async () => {
  const payer = await fundedActor(world.hot, 10_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await payer.checkpoint(rid, 40);
  await payer.endSession();
  assert.deepEqual((await auditOf(payer.account)).counted, { heldNanos: 0n, unpostedNanos: 40n });
  await payer.post(rid, 15, false);
  const { kept, counted } = await auditOf(payer.account);
  assert.deepEqual([kept.unpostedNanos, counted.unpostedNanos], [25n, 25n]);
});

test("a sum that was changed, and a call that is in no index, are seen", async () => {
  const payer = await fundedActor(world.hot, 10_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await world.redis.hincrby(`{auth-quota}:account:${payer.account}`, "held", 5);
  const raised = await auditOf(payer.account);
  assert.deepEqual([raised.kept.heldNanos, raised.counted.heldNanos], [105n, 100n]);
  await world.redis.hincrby(`{auth-quota}:account:${payer.account}`, "held", -5);
  await world.redis.zrem(`{auth-quota}:session:${payer.session}`, rid);
  const lost = await auditOf(payer.account);
  assert.deepEqual([lost.kept.heldNanos, lost.counted.heldNanos, lost.isMoving], [100n, 0n, false]);
});

test("an account that changes while it is counted is in motion, the others are not; it is counted again", async () => {
  const [busy, quiet] = [await fundedActor(world.hot, 10_000_000), await fundedActor(world.hot, 10_000)];
  await quiet.reserve(newRid(), 100);
  let reads = 0;
  const disturbed = new Proxy(world.redis, {
    get: (target, name) => {
      if (name !== "mgetBuffer") return Reflect.get(target, name);
      return async (...names: string[]) => {
        if ((reads += 1) <= disturbances) await busy.reserve(newRid(), 10);
        return await target.mgetBuffer(...names);
      };
    },
  });
  let disturbances = 1_000;
  const ids = [busy.account, quiet.account];
  const always = await auditCalls(disturbed, ids);
  assert.deepEqual(
    always.accounts.map(({ accountId, isMoving }) => [accountId, isMoving]),
    [
      [busy.account, true],
      [quiet.account, false],
    ],
  );
  disturbances = reads + 1;
  const once = await auditCalls(disturbed, ids);
  assert.deepEqual(
    once.accounts.map(({ isMoving, kept, counted }) => [isMoving, kept.heldNanos === counted.heldNanos]),
    [
      [false, true],
      [false, true],
    ],
  );
});

test("the oldest hold is told by the last sign of life of its call", async () => {
  const payer = await fundedActor(world.hot, 10_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await world.redis.zadd(`{auth-quota}:session:${payer.session}`, Date.now() - 7_200_000, rid);
  const { oldestHoldMs } = await auditCalls(world.redis, []);
  assert.ok(oldestHoldMs >= 7_190_000 && oldestHoldMs < 7_300_000, String(oldestHoldMs));
});

test("more calls than can be counted are not, and that is said", async () => {
  const payer = await fundedActor(world.hot, 10_000);
  for (let made = 0; made <= 100_000; made += 20_000) {
    const some = Array.from({ length: 20_000 }, (_, index) => ["1", `rid ${made + index}`]).flat();
    await world.redis.zadd("{auth-quota}:session:flood", ...some);
  }
  await world.redis.zadd("{auth-quota}:sessions", Date.now(), "flood");
  const { isCounted, accounts } = await auditCalls(world.redis, [payer.account]);
  assert.equal(isCounted, false);
  assert.equal(accounts[0]?.kept.postedNanos, 10_000n);
});
