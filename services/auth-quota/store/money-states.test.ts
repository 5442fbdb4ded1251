import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import {
  actor,
  freshNames,
  fundedActor,
  newRid,
  record,
  startHotWorld,
  type HotEnvironment,
} from "../testing/hot-world.ts";
import type { HotSums } from "./hot.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 100_000, ipPerMinute: 100_000 });
});
after(() => world[Symbol.asyncDispose]());

type Actor = Awaited<ReturnType<typeof fundedActor>>;

async function assertSums(payer: Actor, expected: Partial<HotSums>): Promise<void> {
  const sums = await payer.sums();
  const found = Object.fromEntries(Object.keys(expected).map((name) => [name, sums[name as keyof HotSums]]));
  assert.deepEqual(found, expected);
}

const unpostedTexts = async (): Promise<string[]> => (await world.hot.listUnposted(0, 1_000)).map(String);

test("settle turns the hold into its charge and keeps the record until billing has booked it", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 600);
  assert.equal((await payer.settle(rid, 250)).code, Verdict.OK);
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedCalls: 1, unpostedNanos: 250, availableNanos: 750 });
  assert.ok((await unpostedTexts()).includes(String(record(`final 250 ${rid}`))));
  assert.equal(await payer.lookup(rid), CallState.SETTLED);

  await payer.fund(750, 2);
  assert.equal((await payer.post(rid, 250)).code, Verdict.OK);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 750 });
  assert.equal(await payer.lookup(rid), CallState.POSTED);
  assert.ok(!(await unpostedTexts()).some((text) => text.includes(rid)));
});

test("a call that is posted or released is forgotten after an hour; one that is held or owed never is", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const [held, settled, posted, released] = [newRid(), newRid(), newRid(), newRid()];
  for (const rid of [held, settled, posted, released]) await payer.reserve(rid, 10);
  for (const rid of [settled, posted]) await payer.settle(rid, 5);
  await payer.post(posted, 5);
  await payer.release(released);
  const lifeMs = (rid: string) => world.redis.pttl(`{auth-quota}:call:${rid}`);
  for (const rid of [held, settled]) assert.equal(await lifeMs(rid), -1);
  for (const rid of [posted, released]) assert.ok((await lifeMs(rid)) > 3_590_000);
});

test("a charge above its hold is taken in full, and the balance may go below zero by it", async () => {
  const payer = await fundedActor(world.hot, 100);
  const rid = newRid();
  await payer.reserve(rid, 100);
  assert.equal((await payer.settle(rid, 130)).code, Verdict.OK);
  await assertSums(payer, { availableNanos: -30 });
});

test("extend is absolute: it grants what fits, refuses the rest and never lowers", async () => {
  const payer = await fundedActor(world.hot, 100, { limitNanos: 80n });
  const rid = newRid();
  await payer.reserve(rid, 10);
  assert.deepEqual(await payer.extend(rid, 60), { code: Verdict.OK, number: 60, text: "" });
  assert.deepEqual(await payer.extend(rid, 60), { code: Verdict.OK, number: 60, text: "" });
  assert.deepEqual(await payer.extend(rid, 20), { code: Verdict.OK, number: 60, text: "" });
  assert.deepEqual(await payer.extend(rid, 81), { code: Verdict.KEY_LIMIT, number: 60, text: "" });
  await payer.setKey({ limitNanos: undefined, version: 2n });
  assert.deepEqual(await payer.extend(rid, 101), { code: Verdict.BALANCE, number: 60, text: "" });
  assert.deepEqual(await payer.extend(rid, 100), { code: Verdict.OK, number: 100, text: "" });
  await assertSums(payer, { heldNanos: 100, availableNanos: 0 });
});

test("a running call may be extended after its key was stopped: admission is asked once", async () => {
  const payer = await fundedActor(world.hot, 100);
  const rid = newRid();
  await payer.reserve(rid, 10);
  await payer.setKey({ status: "stopped", version: 2n });
  assert.equal((await payer.extend(rid, 20)).code, Verdict.OK);
});

test("release frees the hold of a call that was never sent; one with a checkpoint is not released", async () => {
  const payer = await fundedActor(world.hot, 100);
  const [free, served] = [newRid(), newRid()];
  await payer.reserve(free, 40);
  await payer.reserve(served, 40);
  await payer.checkpoint(served, 7);
  assert.equal((await payer.release(free)).code, Verdict.OK);
  assert.equal((await payer.release(served)).code, Verdict.CONFLICT);
  await assertSums(payer, { openHolds: 1, heldNanos: 40, unpostedCalls: 0, availableNanos: 60 });
});

test("a release that overtakes its reserve leaves no hold behind", async () => {
  const payer = await fundedActor(world.hot, 100);
  const rid = newRid();
  assert.equal((await payer.release(rid)).code, Verdict.NO_HOLD);
  assert.equal((await payer.reserve(rid, 40)).code, Verdict.NO_HOLD);
  await assertSums(payer, { openHolds: 0, heldNanos: 0 });
});

test("a settle without a hold is a charge all the same: Redis may have lost the hold", async () => {
  const payer = await fundedActor(world.hot, 100);
  const rid = newRid();
  assert.equal((await payer.settle(rid, 30)).code, Verdict.OK);
  await assertSums(payer, { unpostedCalls: 1, unpostedNanos: 30, availableNanos: 70 });
  assert.equal((await payer.reserve(rid, 30)).code, Verdict.NO_HOLD, "an ended call takes no new hold");
});

test("a call that cost nothing is still to be booked: every usage event becomes a ledger line", async () => {
  const payer = await fundedActor(world.hot, 100);
  const rid = newRid();
  await payer.reserve(rid, 10);
  await payer.settle(rid, 0);
  await assertSums(payer, { unpostedCalls: 1, unpostedNanos: 0, availableNanos: 100 });
  await payer.post(rid, 0);
  await assertSums(payer, { unpostedCalls: 0 });
});

// The numbered subtleties of the money states.

test("1: funds loaded lazily while a Post arrives never bring an older balance back", async () => {
  const payer = await fundedActor(world.hot, 1_000, { limitNanos: 500n });
  const rid = newRid();
  await payer.reserve(rid, 300);
  await payer.settle(rid, 300);
  // The loader has read version 1 and is slow; meanwhile billing books and tells.
  await payer.fund(700, 2);
  await payer.spend(300, 2);
  await payer.post(rid, 300);
  await payer.fund(1_000, 1);
  await payer.spend(0, 1);
  await assertSums(payer, { availableNanos: 700 });
  assert.equal((await payer.reserve(newRid(), 201)).code, Verdict.KEY_LIMIT);
});

test("1: a Post that comes before any load counts, and a later load of an older version does not", async () => {
  const payer = actor(world.hot);
  await payer.fund(400, 5);
  await payer.post(newRid(), 100);
  await payer.fund(500, 4);
  await assertSums(payer, { availableNanos: 400 });
});

test("2: Posts out of order leave the newest balance, and every call they name is taken out once", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const [first, second] = [newRid(), newRid()];
  for (const rid of [first, second]) {
    await payer.reserve(rid, 100);
    await payer.settle(rid, 100);
  }
  // Billing booked `first` at version 2 (900) and `second` at version 3 (800); the later Post arrives first.
  await payer.fund(800, 3);
  await payer.post(second, 100);
  await assertSums(payer, { unpostedNanos: 100, availableNanos: 700 });
  await payer.fund(900, 2);
  await payer.post(first, 100);
  await assertSums(payer, { unpostedNanos: 0, availableNanos: 800 });
});

test("3: a Post that comes before the settle frees the hold, and the settle then changes nothing", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 600);
  await payer.fund(750, 2);
  await payer.post(rid, 250);
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedNanos: 0, availableNanos: 750 });
  assert.equal((await payer.settle(rid, 250)).code, Verdict.OK);
  assert.equal((await payer.settle(rid, 250)).code, Verdict.OK);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 750 });
  assert.equal(await payer.lookup(rid), CallState.POSTED);
});

test("3: a settle that differs from what the ledger has booked is an alarm and changes nothing", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 600);
  await payer.fund(750, 2);
  await payer.post(rid, 250);
  assert.equal((await payer.settle(rid, 240)).code, Verdict.CONFLICT);
  assert.equal((await payer.settle(rid, 260)).code, Verdict.CONFLICT);
  await assertSums(payer, { availableNanos: 750 });
});

test("3: a Post for a call unknown to Redis leaves a mark only, and its late settle charges nothing", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.fund(900, 2);
  await payer.post(rid, 100);
  assert.equal(await payer.lookup(rid), CallState.POSTED);
  assert.equal((await payer.settle(rid, 100)).code, Verdict.OK);
  assert.equal((await payer.settle(rid, 100)).code, Verdict.OK);
  assert.equal((await payer.settle(rid, 101)).code, Verdict.CONFLICT);
  await assertSums(payer, { unpostedCalls: 0, availableNanos: 900 });
});

async function expiredCall(checkpoint: number): Promise<{ payer: Actor; rid: string }> {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 600);
  if (checkpoint > 0) await payer.checkpoint(rid, checkpoint);
  await payer.endSession();
  return { payer, rid };
}

test("4: expiry charges the last checkpoint and frees the rest in one step, with the provisional record", async () => {
  const { payer, rid } = await expiredCall(200);
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedCalls: 1, unpostedNanos: 200, availableNanos: 800 });
  assert.ok((await unpostedTexts()).includes(String(record(`part 200 ${rid}`))));
  assert.equal(await payer.lookup(rid), CallState.EXPIRED);
  assert.equal((await payer.extend(rid, 700)).code, Verdict.NO_HOLD);
  assert.equal((await payer.checkpoint(rid, 300)).code, Verdict.NO_HOLD);
  assert.equal((await payer.release(rid)).code, Verdict.NO_HOLD);
  assert.equal((await payer.reserve(rid, 600)).code, Verdict.NO_HOLD);
});

test("4: a late final raises an expired call, once, with the final record in place of the provisional", async () => {
  const { payer, rid } = await expiredCall(200);
  assert.equal((await payer.settle(rid, 350)).code, Verdict.OK);
  assert.equal((await payer.settle(rid, 350)).code, Verdict.OK);
  assert.equal((await payer.settle(rid, 360)).code, Verdict.CONFLICT);
  await assertSums(payer, { unpostedCalls: 1, unpostedNanos: 350, availableNanos: 650 });
  const texts = (await unpostedTexts()).filter((text) => text.includes(rid));
  assert.deepEqual(texts, [String(record(`final 350 ${rid}`))]);
});

test("4: a late final never lowers an expired call", async () => {
  const { payer, rid } = await expiredCall(200);
  assert.equal((await payer.settle(rid, 150)).code, Verdict.OK);
  assert.equal((await payer.settle(rid, 150)).code, Verdict.OK);
  await assertSums(payer, { unpostedNanos: 200, availableNanos: 800 });
  // The ledger keeps the provisional charge and adds a line of nothing.
  await payer.fund(800, 2);
  assert.equal((await payer.post(rid, 200)).code, Verdict.OK);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 800 });
});

test("4: provisional booked, then the final settled, then the final booked", async () => {
  const { payer, rid } = await expiredCall(200);
  await payer.fund(800, 2);
  await payer.post(rid, 200, false);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 800 });
  assert.equal(await payer.lookup(rid), CallState.EXPIRED);
  await payer.settle(rid, 350);
  await assertSums(payer, { unpostedCalls: 1, unpostedNanos: 150, availableNanos: 650 });
  assert.equal(
    await world.redis.pttl(`{auth-quota}:call:${rid}`),
    -1,
    "a call that owes is kept for as long as it does",
  );
  await payer.fund(650, 3);
  await payer.post(rid, 350);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 650 });
});

test("4: the final settled, then the provisional booked, then the final booked", async () => {
  const { payer, rid } = await expiredCall(200);
  await payer.settle(rid, 350);
  await payer.fund(800, 2);
  await payer.post(rid, 200, false);
  await assertSums(payer, { unpostedCalls: 1, unpostedNanos: 150, availableNanos: 650 });
  await payer.fund(650, 3);
  await payer.post(rid, 350);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 650 });
});

test("4: the final booked before the settle comes; a lagging Post of the provisional changes nothing", async () => {
  const { payer, rid } = await expiredCall(200);
  await payer.fund(650, 3);
  await payer.post(rid, 350);
  await payer.post(rid, 200, false);
  assert.equal(await payer.lookup(rid), CallState.POSTED);
  assert.equal((await payer.settle(rid, 350)).code, Verdict.OK);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 650 });
});

test("5: a call without a checkpoint is freed when its session ends; a late settle still charges it", async () => {
  const { payer, rid } = await expiredCall(0);
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedCalls: 0, availableNanos: 1_000 });
  assert.equal(await payer.lookup(rid), CallState.RELEASED);
  assert.equal((await payer.reserve(rid, 600)).code, Verdict.NO_HOLD, "no new hold for a call that was given up");
  assert.equal((await payer.settle(rid, 350)).code, Verdict.OK);
  await assertSums(payer, { unpostedCalls: 1, unpostedNanos: 350, availableNanos: 650 });
  assert.equal(await payer.lookup(rid), CallState.SETTLED);
});

test("5: settles of a session that was ended arrive between and after, each is charged once", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rids = [newRid(), newRid(), newRid()] as const;
  for (const rid of rids) await payer.reserve(rid, 100);
  await payer.settle(rids[0], 60);
  await payer.checkpoint(rids[1], 20);
  await payer.endSession();
  await payer.endSession();
  await payer.settle(rids[1], 70);
  await payer.settle(rids[2], 80);
  await payer.settle(rids[0], 60);
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedCalls: 3, unpostedNanos: 210, availableNanos: 790 });
  assert.equal(await world.redis.exists(`{auth-quota}:session:${payer.session}`), 0);
});

test("6: every operation may come twice and has its effect once", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const [settled, released] = [newRid(), newRid()];
  const twice = async (work: () => Promise<{ code: number; number: number }>) => {
    const first = await work();
    assert.deepEqual(await work(), first);
    return first;
  };
  await twice(() => payer.reserve(settled, 100));
  await twice(() => payer.extend(settled, 150));
  await twice(() => payer.checkpoint(settled, 30));
  await twice(() => payer.reserve(released, 50));
  await twice(() => payer.release(released));
  await assertSums(payer, { openHolds: 1, heldNanos: 150 });
  await twice(() => payer.settle(settled, 90));
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedCalls: 1, unpostedNanos: 90 });
  await payer.fund(910, 2);
  await twice(() => payer.post(settled, 90));
  await twice(() => payer.settle(settled, 90));
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 910 });
  assert.deepEqual(await payer.reserve(settled, 100), { code: Verdict.OK, number: 100, text: "" });
  assert.deepEqual(await payer.reserve(released, 50), { code: Verdict.OK, number: 50, text: "" });
  await assertSums(payer, { openHolds: 0, heldNanos: 0, availableNanos: 910 });
});

test("6: the same rid with other content is an alarm and changes nothing", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  assert.equal((await payer.reserve(rid, 101)).code, Verdict.CONFLICT);
  assert.equal((await payer.reserve(rid, 100, { model: "other" })).code, Verdict.CONFLICT);
  assert.equal((await payer.reserve(rid, 100, { keyId: "key_other" })).code, Verdict.CONFLICT);
  const stranger = actor(world.hot, { ...freshNames(), session: payer.session });
  assert.equal((await stranger.settle(rid, 10)).code, Verdict.CONFLICT);
  await assertSums(payer, { openHolds: 1, heldNanos: 100, unpostedCalls: 0 });
  await payer.settle(rid, 60);
  assert.equal((await payer.settle(rid, 61)).code, Verdict.CONFLICT);
  await assertSums(payer, { unpostedNanos: 60 });
  await payer.release(newRid());
});

test("6: a settle after an explicit release is an alarm: a call that was never sent has no charge", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await payer.release(rid);
  assert.equal((await payer.settle(rid, 60)).code, Verdict.CONFLICT);
  await assertSums(payer, { unpostedCalls: 0, availableNanos: 1_000 });
});

test("6: a checkpoint never lowers and keeps the record of the highest", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  for (const cost of [50, 50, 20]) assert.equal((await payer.checkpoint(rid, cost)).code, Verdict.OK);
  await payer.endSession();
  await assertSums(payer, { unpostedNanos: 50 });
  assert.ok((await unpostedTexts()).includes(String(record(`part 50 ${rid}`))));
});

test("7: extend racing settle: either order ends with nothing held and the charge alone", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const [before, behind] = [newRid(), newRid()];
  await payer.reserve(before, 100);
  await payer.extend(before, 300);
  await payer.settle(before, 250);
  await payer.reserve(behind, 100);
  await payer.settle(behind, 100);
  assert.equal((await payer.extend(behind, 300)).code, Verdict.NO_HOLD);
  await assertSums(payer, { openHolds: 0, heldNanos: 0, unpostedNanos: 350, availableNanos: 650 });
});

test("the ledger's word that contradicts a settled charge is taken and reported", async () => {
  const payer = await fundedActor(world.hot, 1_000);
  const rid = newRid();
  await payer.reserve(rid, 100);
  await payer.settle(rid, 60);
  await payer.fund(930, 2);
  assert.equal((await payer.post(rid, 70)).code, Verdict.CONFLICT);
  await assertSums(payer, { unpostedCalls: 0, unpostedNanos: 0, availableNanos: 930 });
});

test("records that cannot be booked do not keep younger ones from being listed", async () => {
  await world.redis.flushall();
  await world.hot.establish(false);
  const payer = await fundedActor(world.hot, 1_000);
  const rids = Array.from({ length: 5 }, newRid);
  for (const rid of rids) await payer.settle(rid, 1);
  // All of them are made older than the limit, in their order.
  const nowMs = Date.now();
  for (const [index, rid] of rids.entries()) await world.redis.zadd("{auth-quota}:outbox", nowMs - 60_000 + index, rid);
  const ask = async () => (await world.hot.listUnposted(30_000, 2)).map((text) => String(text).slice(-36));
  assert.deepEqual(await ask(), rids.slice(0, 2));
  assert.deepEqual(await ask(), rids.slice(2, 4));
  assert.deepEqual(await ask(), rids.slice(4));
  assert.deepEqual(await ask(), []);
  await world.redis.zadd("{auth-quota}:listed", nowMs - 31_000, rids[1] ?? "");
  assert.deepEqual(await ask(), rids.slice(1, 2), "after the same time again they have another turn");
});
