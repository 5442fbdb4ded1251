import assert from "node:assert/strict";
import { after, test } from "node:test";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { actor, fundedActor, newRid, silentLog, startHotWorld } from "../testing/hot-world.ts";
import { createHotStore, type HotStore } from "./hot.ts";
import { sweep } from "../hot/sweep.ts";
import { createMetrics } from "../metrics.ts";
import { createRegistry } from "#shared/metrics/ops.ts";

const world = await startHotWorld();
after(() => world[Symbol.asyncDispose]());
const { hot, redis } = world;

async function loseAll(): Promise<void> {
  await redis.flushall();
  await hot.establish(true);
}

/** What is left to a process of the service when Redis comes back without the last runs that it had answered. */
async function loseTail(runs: number): Promise<void> {
  const service = await redis.hgetall("{auth-quota}:service");
  for (const [field, value] of Object.entries(service)) {
    const [run = "", atMs = ""] = value.split(" ");
    if (field.startsWith("seen:")) await redis.hset("{auth-quota}:service", field, `${Number(run) - runs} ${atMs}`);
  }
}

const isClosed = async (store: HotStore = hot): Promise<boolean> =>
  (await store.readRecoveryLock())?.closedMs !== undefined;
const open = (): Promise<unknown> => hot.apply("", [["open-gate", hot.generation()]]);

test("an empty Redis decides nothing before it is established; a new installation then grants at once", async () => {
  await redis.flushall();
  await assert.rejects(fundedActor(hot, 1_000), /not established/);
  assert.equal(await hot.readRecoveryLock(), undefined);
  await hot.establish(false);
  assert.equal(await isClosed(), false);
  const payer = await fundedActor(hot, 1_000);
  assert.equal((await payer.reserve(newRid(), 100)).code, Verdict.OK);
});

test("before anything was lost, what billing tells counts as loaded: a new account needs no question", async () => {
  await redis.flushall();
  await hot.establish(false);
  const payer = actor(hot);
  await payer.setAccount();
  await payer.setKey();
  await hot.apply("", [["balance", payer.account, "700", "0", "1", ""]]);
  assert.equal((await payer.reserve(newRid(), 100)).code, Verdict.OK);
});

test("two processes that establish at once begin one generation", async () => {
  await redis.flushall();
  const other = createHotStore(redis, { accountPerMinute: 600, ipPerMinute: 1_200, accountConcurrent: 0 });
  await Promise.all([hot.establish(true), other.establish(true)]);
  assert.equal(hot.generation(), other.generation());
  assert.equal(await isClosed(), true);
});

test("after a total loss nothing is granted, while charges, checkpoints and releases are taken", async () => {
  const payer = await fundedActor(hot, 1_000);
  await loseAll();
  const again = await refund(payer, 1_000);
  const [running, asked] = [newRid(), newRid()];
  assert.equal((await again.reserve(asked, 1)).code, Verdict.UNAVAILABLE);
  assert.deepEqual(await again.restore(running, 300, 120), { code: Verdict.OK, number: 300, text: "" });
  assert.equal((await again.extend(running, 400)).code, Verdict.UNAVAILABLE, "I13: no more money without a decision");
  assert.equal((await again.checkpoint(running, 150)).code, Verdict.OK);
  assert.equal((await again.authorize()).code, Verdict.OK, "whether a key works is no question of money");
  assert.equal((await again.settle(running, 160)).code, Verdict.OK);
  assert.deepEqual((await again.sums()).unpostedNanos, 160);
  await open();
  assert.equal((await again.reserve(asked, 840)).code, Verdict.OK);
});

/** Settings and money of an account as they are loaded after a loss. */
async function refund(payer: ReturnType<typeof actor>, nanos: number) {
  await payer.setAccount();
  await payer.setKey();
  await payer.fund(nanos);
  return payer;
}

test("a restored hold counts against what is available, whatever there is, and ends like any other", async () => {
  const payer = await fundedActor(hot, 100);
  const rid = newRid();
  assert.deepEqual(await payer.restore(rid, 300), { code: Verdict.OK, number: 300, text: "" });
  assert.equal((await payer.sums()).availableNanos, -200);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.BALANCE);
  assert.equal((await payer.release(rid)).code, Verdict.OK);
  assert.equal((await payer.sums()).availableNanos, 100);
});

test("a restore raises hold and checkpoint of a known call, never lowers them, and wakes no call that has ended", async () => {
  const payer = await fundedActor(hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 200);
  await payer.checkpoint(rid, 90);
  assert.equal((await payer.restore(rid, 150, 40)).number, 200);
  assert.equal((await payer.restore(rid, 250, 95)).number, 250);
  await payer.endSession();
  assert.equal(await payer.lookup(rid), CallState.EXPIRED);
  assert.equal((await payer.sums()).unpostedNanos, 95, "charged at the restored checkpoint");
  assert.equal((await payer.restore(rid, 250, 99)).code, Verdict.NO_HOLD);
  const stranger = actor(hot);
  const mine = newRid();
  await payer.reserve(mine, 10);
  assert.equal((await stranger.restore(mine, 10)).code, Verdict.CONFLICT);
});

test("a Redis that comes back without its last moments is a new generation with a closed recovery lock", async () => {
  const payer = await fundedActor(hot, 1_000);
  const before = hot.generation();
  await loseTail(1);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.UNAVAILABLE);
  assert.notEqual(hot.generation(), before);
  assert.equal(await isClosed(), true);
  const now = hot.generation();
  await payer.sums();
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.UNAVAILABLE);
  assert.equal(hot.generation(), now, "one loss is one generation");
  await open();
  assert.equal((await payer.reserve(newRid(), 1)).code, 100, "its balance counts as not loaded");
  await payer.fund(1_000);
  assert.equal((await payer.reserve(newRid(), 1)).code, Verdict.OK);
});

test("a Redis that comes back as it was before an earlier loss is a new generation again", async () => {
  await fundedActor(hot, 1_000);
  const first = hot.generation();
  await loseTail(1);
  await hot.apply("", []);
  const second = hot.generation();
  await open();
  await redis.hset("{auth-quota}:service", "generation", first);
  await hot.apply("", []);
  assert.ok(Number(hot.generation()) > Number(second));
  assert.equal(await isClosed(), true);
  await open();
});

test("what billing tells is taken by version, but only what was asked for now counts as loaded", async () => {
  const payer = await fundedActor(hot, 1_000);
  const before = hot.generation();
  await loseTail(1);
  await payer.lookup(newRid());
  await open();
  await hot.apply("", [["balance", payer.account, "700", "0", "2", ""]]);
  assert.equal((await payer.reserve(newRid(), 1)).code, 100);
  await hot.apply("", [["balance", payer.account, "650", "0", "3", before]]);
  assert.equal((await payer.reserve(newRid(), 1)).code, 100, "an answer to a question from before the loss may be old");
  await payer.fund(900, 1);
  assert.equal((await payer.sums()).availableNanos, 650, "the newer version stays");
});

test("the recovery lock of one generation is not opened by who has read an earlier one", async () => {
  const earlier = (await hot.readRecoveryLock())?.generation ?? "";
  await loseTail(1);
  await hot.apply("", []);
  await hot.apply("", [["open-gate", earlier]]);
  assert.equal(await isClosed(), true);
  await hot.apply("", [["note-sequence", earlier, "7"]]);
  assert.equal((await hot.readRecoveryLock())?.sequence, undefined);
  await hot.apply("", [["note-sequence", hot.generation(), "8"]]);
  await hot.apply("", [["note-sequence", hot.generation(), "9"]]);
  assert.equal((await hot.readRecoveryLock())?.sequence, 8n, "what was on its way when the loss was found");
  await open();
});

test("processes that are gone for a day are forgotten", async () => {
  await redis.hset("{auth-quota}:service", "seen:gone", `5 ${Date.now() - 2 * 86_400_000}`);
  await redis.hset("{auth-quota}:service", "seen:young", `5 ${Date.now() - 3_600_000}`);
  await sweep({ hot, metrics: createMetrics(createRegistry("test")), log: silentLog }, 120_000);
  const fields = Object.keys(await redis.hgetall("{auth-quota}:service"));
  assert.deepEqual([fields.includes("seen:gone"), fields.includes("seen:young")], [false, true]);
});

test("an extend that the money does not reach for takes what there is, if that is of use", async () => {
  const payer = await fundedActor(hot, 1_000, { limitNanos: 800n });
  const [rid, other] = [newRid(), newRid()];
  await payer.reserve(rid, 300);
  await payer.reserve(other, 200);
  assert.equal((await payer.extend(rid, 900)).code, Verdict.KEY_LIMIT, "all or nothing");
  assert.equal((await payer.extend(rid, 900, 700)).code, Verdict.KEY_LIMIT, "less than the least");
  assert.deepEqual(await payer.extend(rid, 900, 301), { code: Verdict.OK, number: 600, text: "" });
  assert.equal((await payer.extend(rid, 900, 601)).code, Verdict.KEY_LIMIT, "nothing is left");
  assert.equal((await payer.sums()).heldNanos, 800);
});

test("a hold that its living relay has forgotten ends after two hours, charged at its checkpoint", async () => {
  const metrics = createMetrics(createRegistry("test"));
  const payer = await fundedActor(hot, 1_000);
  const [forgotten, young, restored] = [newRid(), newRid(), newRid()];
  for (const rid of [forgotten, young, restored]) await payer.reserve(rid, 100);
  await payer.checkpoint(forgotten, 30);
  const name = `{auth-quota}:session:${payer.session}`;
  const threeHoursAgo = Date.now() - 3 * 3_600_000;
  for (const rid of [forgotten, restored]) await redis.zadd(name, threeHoursAgo, rid);
  await payer.restore(restored, 100);
  await sweep({ hot, metrics, log: silentLog }, 120_000);
  assert.equal(await payer.lookup(forgotten), CallState.EXPIRED);
  assert.deepEqual([await payer.lookup(young), await payer.lookup(restored)], [CallState.HELD, CallState.HELD]);
  assert.equal((await payer.sums()).heldNanos, 200);
});
