import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Registry } from "prom-client";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { answerCodes } from "../store/hot.ts";
import { createMetrics } from "../metrics.ts";
import { sweep as sweepAll } from "./sweep.ts";
import { fundedActor, newRid, silentLog, startHotWorld, type HotEnvironment } from "../testing/hot-world.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 100_000, ipPerMinute: 100_000 });
});
after(() => world[Symbol.asyncDispose]());

const silentMs = 120_000;
const registry = new Registry();
const metrics = createMetrics(registry);
const sweep = () => sweepAll({ hot: world.hot, metrics, log: silentLog }, silentMs);

/** Makes a relay one that was last heard so long ago. */
async function silence(session: string, sinceMs: number): Promise<void> {
  await world.redis.zadd("{auth-quota}:sessions", Date.now() - sinceMs, session);
}

test("holds of a relay that was silent for 120 s are charged at their checkpoint, the rest is freed", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const [started, served] = [newRid(), newRid()];
  await payer.reserve(started, 100);
  await payer.reserve(served, 200);
  await payer.checkpoint(served, 70);
  await silence(payer.session, silentMs - 5_000);
  await sweep();
  assert.equal((await payer.sums()).openHolds, 2, "115 s are not enough");
  await silence(payer.session, silentMs + 1_000);
  await sweep();
  const sums = await payer.sums();
  assert.deepEqual([sums.openHolds, sums.unpostedNanos, sums.availableNanos], [0, 70, 930]);
  assert.equal(await world.redis.zscore("{auth-quota}:sessions", payer.session), null);
});

test("any batch, also one without operations, keeps a relay's holds alive", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await silence(payer.session, silentMs + 1_000);
  await world.hot.apply(payer.session, []);
  await sweep();
  assert.equal(await payer.lookup(rid), CallState.HELD);
});

test("many holds end in steps, and sweeps of several replicas at once end each of them once", async () => {
  const payer = await fundedActor(world.hot, 1_000_000);
  const rids = Array.from({ length: 950 }, newRid);
  for (const rid of rids) {
    await payer.reserve(rid, 100);
    await payer.checkpoint(rid, 3);
  }
  await silence(payer.session, silentMs + 1_000);
  await Promise.all([sweep(), sweep(), sweep()]);
  const sums = await payer.sums();
  assert.deepEqual([sums.openHolds, sums.heldNanos, sums.unpostedCalls, sums.unpostedNanos], [0, 0, 950, 2_850]);
});

test("time in which auth-quota itself was down is nobody's silence", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await silence(payer.session, silentMs + 60_000);
  // The script last ran three minutes ago: the service or Redis was away, and no relay could be heard.
  await world.redis.hset("{auth-quota}:service", "beat", Date.now() - 180_000);
  await sweep();
  assert.equal(await payer.lookup(rid), CallState.HELD);
  // The full time has passed again since the service came back.
  await world.redis.hset("{auth-quota}:service", "floor", Date.now() - silentMs - 1_000);
  await silence(payer.session, silentMs + 60_000);
  await sweep();
  assert.equal(await payer.lookup(rid), CallState.RELEASED);
});

test("a relay that was taken for dead and comes back may go on: its session is simply there again", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  await payer.reserve(newRid(), 100);
  await silence(payer.session, silentMs + 1_000);
  await sweep();
  const rid = newRid();
  assert.equal((await payer.reserve(rid, 100)).code, Verdict.OK);
  await sweep();
  assert.equal(await payer.lookup(rid), CallState.HELD);
});

test("after a loss, what a living relay has not restored is ended: calls that an old copy of Redis takes for open", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const [over, open, late] = [newRid(), newRid(), newRid()];
  await payer.reserve(over, 100);
  await payer.checkpoint(over, 40);
  await payer.reserve(open, 200);
  const generation = world.hot.generation();
  // Redis as it was before this process' last run.
  await world.redis.hset("{auth-quota}:service", "generation", String(Number(generation) - 1));
  await world.redis.zadd(`{auth-quota}:session:${payer.session}`, Date.now() - 1_000, over);
  await world.hot.apply(payer.session, []);
  assert.notEqual(world.hot.generation(), generation);
  await payer.restore(open, 200);
  const sweepRestored = async (restoredMs: string): Promise<void> => {
    for (let code: number | undefined = answerCodes.more; code === answerCodes.more;) {
      [{ code } = { code: undefined }] = await world.hot.apply("", [["sweep-forgotten", "7200000", restoredMs, "200"]]);
    }
  };
  await sweepRestored("-1");
  assert.equal(await payer.lookup(over), CallState.HELD, "not while relays may still restore");
  await world.hot.apply("", [["open-gate", world.hot.generation()]]);
  await sweepRestored("600000");
  assert.equal(await payer.lookup(over), CallState.HELD, "not so soon");
  await payer.fund(1_000, 2);
  assert.equal((await payer.reserve(late, 10)).code, Verdict.OK);
  await sweepRestored("-1");
  const states = [await payer.lookup(over), await payer.lookup(open), await payer.lookup(late)];
  assert.deepEqual(states, [CallState.EXPIRED, CallState.HELD, CallState.HELD]);
});

test("expired holds are counted", async () => {
  assert.match(await registry.metrics(), /auth_quota_expired_holds_total 95[3-9]/);
});
