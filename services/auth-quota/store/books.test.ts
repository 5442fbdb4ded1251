import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { fundedActor, newRid, record, startHotWorld, type HotEnvironment } from "../testing/hot-world.ts";
import { auditCalls } from "./audit-calls.ts";
import { answerCodes, need, type HotAnswer } from "./hot.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 800, ipPerMinute: 5 });
});
after(() => world[Symbol.asyncDispose]());

type Payer = Awaited<ReturnType<typeof fundedActor>>;

const posted = 5;
const settled = 4;

function booksOf({ account, key, session }: Payer, relay = session) {
  const run = async (...operation: [string, ...(string | Buffer)[]]): Promise<HotAnswer> => {
    const { answers } = await world.hot.applyFor(relay, [operation]);
    assert.ok(answers[0], "it is answered");
    return answers[0];
  };
  const charge = (name: string, rid: string, leaseRid: string, cost: number, ip = "") =>
    run(name, rid, leaseRid, account, key, String(cost), ip, record(rid));
  return {
    run,
    lease: (rid: string, nanos = 4_000, calls = 40) =>
      run("lease", rid, String(ridTimeMs(rid)), key, account, String(nanos), String(calls), "10000"),
    draw: (rid: string, leaseRid: string, held: number) => run("draw", rid, leaseRid, account, key, String(held), ""),
    settle: (rid: string, leaseRid: string, cost: number, ip = "") => charge("settle-leased", rid, leaseRid, cost, ip),
    settleProven: (rid: string, cost: number) => charge("settle-leased-proven", rid, "", cost),
    post: (rid: string, booked: number) => run("post-leased", rid, account, key, String(booked)),
    release: (rid: string, untold = 0) =>
      untold > 0 ? run("release-lease", rid, account, String(untold)) : run("release", rid, account),
    states: async (...rids: string[]) =>
      [...(await run("lookup-leased", account, key, rids.join(""))).text].map(Number),
  };
}

async function sumsOf(payer: Payer): Promise<[held: number, open: number, unposted: number]> {
  const { heldNanos, openHolds, unpostedNanos } = await payer.sums();
  const { accounts } = await auditCalls(world.redis, [payer.account]);
  assert.equal(accounts[0]?.counted.heldNanos, BigInt(heldNanos));
  assert.equal(accounts[0]?.counted.unpostedNanos, BigInt(unpostedNanos));
  return [heldNanos, openHolds, unpostedNanos];
}

const owedTexts = async (): Promise<string[]> => (await world.hot.listUnposted(0, 1_000)).map(String);

describe("a charge within a lease", () => {
  it("leaves the lease, is owed until it is booked, and is listed until then", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    assert.equal((await books.settle(call, lease, 250)).code, Verdict.OK);
    assert.deepEqual(await sumsOf(payer), [3_750, 39, 250]);
    assert.deepEqual(await books.states(call, newRid()), [settled, 0]);
    assert.ok((await owedTexts()).includes(`record of ${call}`));
    assert.equal((await books.post(call, 250)).code, Verdict.OK);
    assert.deepEqual(await sumsOf(payer), [3_750, 39, 0]);
    assert.deepEqual(await books.states(call), [posted]);
    assert.ok(!(await owedTexts()).includes(`record of ${call}`));
    await books.release(lease);
    assert.deepEqual(await sumsOf(payer), [0, 0, 0]);
  });

  it("counts once, however often it is told or booked, and with one amount", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    for (const _ of [1, 2]) assert.equal((await books.settle(call, lease, 250)).code, Verdict.OK);
    assert.equal((await books.settleProven(call, 250)).code, Verdict.OK, "by another relay, from the spool");
    assert.equal((await books.settle(call, lease, 251)).code, Verdict.CONFLICT);
    assert.deepEqual(await sumsOf(payer), [3_750, 39, 250]);
    for (const _ of [1, 2]) assert.equal((await books.post(call, 250)).code, Verdict.OK);
    assert.equal((await books.settle(call, lease, 250)).code, Verdict.OK);
    assert.equal((await books.settle(call, lease, 249)).code, Verdict.CONFLICT);
    assert.deepEqual(await sumsOf(payer), [3_750, 39, 0]);
  });

  it("that is booked before it is told leaves the lease and owes nothing", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    await books.post(call, 250);
    assert.deepEqual(await books.states(call), [posted]);
    assert.deepEqual(await sumsOf(payer), [4_000, 40, 0]);
    assert.equal((await books.settle(call, lease, 251)).code, Verdict.CONFLICT);
    for (const _ of [1, 2]) assert.equal((await books.settle(call, lease, 250)).code, Verdict.OK);
    assert.deepEqual(await sumsOf(payer), [3_750, 39, 0]);
  });

  it("that is booked with another amount is reported, and owes nothing any more", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    await books.settle(call, lease, 250);
    assert.equal((await books.post(call, 240)).code, Verdict.CONFLICT);
    assert.deepEqual(await sumsOf(payer), [3_750, 39, 0]);
  });

  it("is known to what follows in the same run", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const { account, key } = payer;
    const books = booksOf(payer);
    const [lease, call, later] = [newRid(), newRid(), newRid()];
    await books.lease(lease);
    const told = (rid: string): [string, ...(string | Buffer)[]] => {
      return ["settle-leased", rid, lease, account, key, "250", "", record(rid)];
    };
    const look: [string, ...string[]] = ["lookup-leased", account, key, call + later];
    const { answers } = await world.hot.applyFor(payer.session, [
      told(call),
      look,
      told(later),
      ["post-leased", call, account, key, "250"],
      look,
    ]);
    assert.deepEqual(
      answers.map(({ code, text }) => [code, text]),
      [
        [Verdict.OK, ""],
        [Verdict.OK, "40"],
        [Verdict.OK, ""],
        [Verdict.OK, ""],
        [Verdict.OK, "54"],
      ],
    );
    assert.deepEqual(await sumsOf(payer), [3_500, 38, 250]);
    assert.deepEqual(await books.states(call, later), [posted, settled]);
  });

  it("must be proven where the lease is over, or another's", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const [books, other] = [booksOf(payer), booksOf(payer, "another-relay")];
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    for (const told of [() => other.settle(call, lease, 50), () => books.settle(call, newRid(), 50)]) {
      const { code, number } = await told();
      assert.deepEqual([code, number], [answerCodes.need, need.proof]);
    }
    assert.deepEqual(await sumsOf(payer), [4_000, 40, 0]);
    await books.release(lease);
    assert.equal((await books.settle(call, lease, 50)).code, answerCodes.need);
    assert.equal((await other.settleProven(call, 50)).code, Verdict.OK);
    assert.deepEqual(await sumsOf(payer), [0, 0, 50]);
    await other.post(call, 50);
    assert.deepEqual(await sumsOf(payer), [0, 0, 0]);
  });

  it("beyond what is left of the lease takes all of it", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const lease = newRid();
    await books.lease(lease, 1_000, 8);
    await books.settle(newRid(), lease, 1_300);
    assert.deepEqual(await sumsOf(payer), [0, 7, 1_300]);
  });

  it("stays owed when the lease ends with its relay", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    await books.settle(call, lease, 250);
    await payer.endSession();
    assert.deepEqual(await sumsOf(payer), [0, 0, 250]);
    await books.post(call, 250);
    assert.deepEqual(await sumsOf(payer), [0, 0, 0]);
  });

  it("counts its address, and tells when that has used up its rate", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const lease = newRid();
    await books.lease(lease);
    for (let calls = 0; calls < 5; calls += 1)
      assert.equal((await books.settle(newRid(), lease, 1, "10.8.8.8")).code, Verdict.OK);
    const last = await books.settle(newRid(), lease, 1, "10.8.8.8");
    assert.deepEqual([last.code, last.number > 0], [Verdict.IP_RATE, true]);
    assert.deepEqual(await sumsOf(payer), [3_994, 34, 6], "it is charged");
  });

  it("of a version that knows no books is found where that has put it", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, alone, marked] = [newRid(), newRid(), newRid()];
    await books.lease(lease);
    await payer.settle(alone, 70);
    assert.deepEqual(await books.states(alone), [settled]);
    assert.equal((await books.post(alone, 70)).code, Verdict.OK);
    assert.deepEqual(await books.states(alone), [posted]);
    await books.settle(marked, lease, 30);
    await books.run("post", marked, "30", "1");
    assert.deepEqual(await sumsOf(payer), [3_970, 39, 30]);
    assert.deepEqual(await books.states(marked), [posted]);
    assert.deepEqual(await sumsOf(payer), [3_970, 39, 0]);
  });

  it("is forgotten an hour after its book owes nothing any more", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await books.lease(lease);
    await books.settle(call, lease, 250);
    const names = await world.redis.keys(`*${payer.key}.*`);
    assert.equal(names.length, 3);
    for (const name of names) assert.equal(await world.redis.pttl(name), -1, name);
    await books.post(call, 250);
    const left = await world.redis.keys(`*${payer.key}.*`);
    assert.equal(left.length, 2, "its record is gone");
    for (const name of left) assert.ok((await world.redis.pttl(name)) > 3_500_000, name);
  });
});

describe("a lease with calls that are never told of", () => {
  it("gives nothing back of the rate for them, and a lost one nothing at all", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const books = booksOf(payer);
    const arrival = async (): Promise<number> =>
      Number(await world.redis.hget(`{auth-quota}:account:${payer.account}`, "arrival"));
    const [lease, lost] = [newRid(), newRid()];
    await books.lease(lease);
    const taken = await arrival();
    await books.settle(newRid(), lease, 1);
    await books.release(lease, 9);
    assert.equal(await arrival(), taken - 30 * (60_000_000 / 800));
    await books.lease(lost);
    const before = await arrival();
    await payer.endSession();
    assert.equal(await arrival(), before);
  });
});
