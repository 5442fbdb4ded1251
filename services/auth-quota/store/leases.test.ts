import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { fundedActor, newRid, startHotWorld, type HotEnvironment } from "../testing/hot-world.ts";
import { auditCalls } from "./audit-calls.ts";
import { answerCodes, need, writeAccount, writeKey, type HotAnswer } from "./hot.ts";

let world: HotEnvironment;
before(async () => {
  world = await startHotWorld({ accountPerMinute: 800, ipPerMinute: 5 });
});
after(() => world[Symbol.asyncDispose]());

type Payer = Awaited<ReturnType<typeof fundedActor>>;

const lasts = 10_000;

/** Operations of leases of one payer, each with what its relay is asked to give back. */
function leasesOf({ account, key, session }: Payer, relay = session) {
  const run = async (...operation: [string, ...string[]]): Promise<HotAnswer & { recalled: string[] }> => {
    const { answers, recalledLeases: recalled } = await world.hot.applyFor(relay, [operation]);
    assert.ok(answers[0], "it is answered");
    return { ...answers[0], recalled };
  };
  return {
    lease: (rid: string, nanos: number, calls: number, lastsMs = lasts) =>
      run("lease", rid, String(ridTimeMs(rid)), key, account, String(nanos), String(calls), String(lastsMs)),
    draw: (rid: string, leaseRid: string, held: number, ip = "") =>
      run("draw", rid, leaseRid, account, key, String(held), ip),
    drawProven: (rid: string, held: number) => run("draw-proven", rid, newRid(), account, key, String(held), ""),
    release: (rid: string) => run("release", rid, account),
    reserve: (rid: string, nanos: number) =>
      run("reserve", rid, String(ridTimeMs(rid)), "", key, account, "m", String(nanos), ""),
    extend: (rid: string, total: number) => run("extend", rid, String(total), "0", account),
    beat: () => world.hot.applyFor(relay, []),
  };
}

/** What is said of a granted lease: calls, how long it lasts, calls of an address in a minute. */
const termsOf = ({ text }: HotAnswer): number[] => (text.split("\n")[0] ?? "").split(" ").map(Number);

async function assertAudited({ account }: Payer): Promise<void> {
  const { accounts } = await auditCalls(world.redis, [account]);
  assert.equal(accounts[0]?.counted.heldNanos, accounts[0]?.kept.heldNanos);
}

describe("a lease", () => {
  it("sets aside what is asked for, at most an eighth of the money, the rate and the calls under way", async () => {
    const payer = await fundedActor(world.hot, 80_000, { models: ["m", "n"] });
    const leases = leasesOf(payer);
    const rid = newRid();
    const granted = await leases.lease(rid, 5_000, 40);
    assert.deepEqual([granted.code, granted.number], [Verdict.OK, 5_000]);
    assert.deepEqual(termsOf(granted), [40, lasts, 5]);
    assert.deepEqual(granted.text.split("\n").slice(1), ["m", "n"]);
    const { heldNanos, openHolds, availableNanos } = await payer.sums();
    assert.deepEqual([heldNanos, openHolds, availableNanos], [5_000, 40, 75_000]);
    await assertAudited(payer);
    assert.equal((await leases.lease(rid, 5_000, 40)).number, 5_000, "the same again is the same lease");
    const most = await leases.lease(newRid(), 60_000, 10_000);
    assert.equal(most.number, 75_000 / 8, "money");
    assert.ok((termsOf(most)[0] ?? 0) <= (800 - 40) / 8, "calls");
    await assertAudited(payer);
  });

  it("is not granted where it is not worth it, nor to a key that may not call", async () => {
    const poor = await fundedActor(world.hot, 8_000);
    assert.equal(
      (await leasesOf(poor).lease(newRid(), 8_001, 20)).number,
      0,
      "an eighth of what is asked for, or none",
    );
    assert.equal((await leasesOf(poor).lease(newRid(), 1_000, 7)).number, 0, "few calls");
    const narrow = await fundedActor(world.hot, 80_000, { maxConcurrent: 60 });
    assert.equal((await leasesOf(narrow).lease(newRid(), 1_000, 20)).number, 0, "few calls of the key");
    const limited = await fundedActor(world.hot, 80_000, { limitNanos: 8_000n });
    assert.equal((await leasesOf(limited).lease(newRid(), 5_000, 20)).number, 1_000, "its limit counts");
    const stopped = await fundedActor(world.hot, 80_000, { status: "stopped" });
    assert.equal((await leasesOf(stopped).lease(newRid(), 1_000, 20)).code, Verdict.KEY_INVALID);
    for (const change of [{ requestsPerMinute: 500 }, { addresses: ["192.0.2.7"] }]) {
      const bounded = await fundedActor(world.hot, 80_000, change);
      const { code, number } = await leasesOf(bounded).lease(newRid(), 1_000, 20);
      assert.deepEqual([code, number], [Verdict.OK, 0], "no relay looks at its rate and its addresses");
    }
    assert.deepEqual((await poor.sums()).heldNanos, 0);
  });

  it("is asked back when its key gets a rate of its own, whose calls ask nobody for theirs", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const rid = newRid();
    assert.equal((await leases.lease(rid, 1_000, 20)).number, 1_000);
    await payer.setKey({ requestsPerMinute: 1, version: 2n });
    assert.deepEqual((await leases.beat()).recalledLeases, [rid]);
    assert.equal((await leases.reserve(newRid(), 1)).code, Verdict.OK);
    assert.equal((await leases.reserve(newRid(), 1)).code, Verdict.ACCOUNT_RATE, "what leases hold does not help");
  });

  it("ends no later than its key", async () => {
    const payer = await fundedActor(world.hot, 80_000, { expiresAtMs: Date.now() + 4_000 });
    const [, lastsMs = 0] = termsOf(await leasesOf(payer).lease(newRid(), 1_000, 20));
    assert.ok(lastsMs > 0 && lastsMs <= 4_000, `${lastsMs}`);
  });

  it("gives each draw its hold, and what is left comes back when it is released", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const [lease, first, second] = [newRid(), newRid(), newRid()];
    await leases.lease(lease, 4_000, 40);
    assert.equal((await leases.draw(first, lease, 300)).code, Verdict.OK);
    assert.equal((await leases.draw(first, lease, 300)).code, Verdict.OK, "told twice, drawn once");
    await leases.draw(second, lease, 200);
    const within = await payer.sums();
    assert.deepEqual([within.heldNanos, within.openHolds], [4_000, 40], "they came out of the lease");
    await payer.settle(first, 250);
    await leases.release(lease);
    const left = await payer.sums();
    assert.deepEqual([left.heldNanos, left.openHolds, left.unpostedNanos], [200, 1, 250]);
    await assertAudited(payer);
    await leases.release(lease);
    assert.deepEqual(await payer.sums(), left, "and once only");
    await payer.settle(second, 100);
    assert.equal((await payer.sums()).heldNanos, 0);
  });

  it("takes calls of the rate with it, and brings back those that nobody made", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const lease = newRid();
    const arrival = async (): Promise<number> =>
      Number(await world.redis.hget(`{auth-quota}:account:${payer.account}`, "arrival"));
    await leases.lease(lease, 4_000, 40);
    const taken = await arrival();
    for (let calls = 0; calls < 10; calls += 1) await leases.draw(newRid(), lease, 1);
    assert.equal(await arrival(), taken, "draws are of those that were counted");
    await leases.release(lease);
    assert.equal(await arrival(), taken - 30 * (60_000_000 / 800));
  });

  it("brings back of the rate no more than what time has not given back since", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const lease = newRid();
    const account = `{auth-quota}:account:${payer.account}`;
    await leases.lease(lease, 4_000, 40);
    // Long ago, as its arrival says; the account has begun many calls since.
    const call = `{auth-quota}:call:${lease}`;
    const granted = await world.redis.hget(account, "arrival");
    await world.redis.set(call, ((await world.redis.get(call)) ?? "").replace(` ${granted} `, " 1 "));
    await leases.release(lease);
    assert.equal(await world.redis.hget(account, "arrival"), granted);
  });

  it("is told to last no longer than a new one, whatever the clock did since", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const lease = newRid();
    await leases.lease(lease, 4_000, 40);
    const call = `{auth-quota}:call:${lease}`;
    const text = (await world.redis.get(call)) ?? "";
    await world.redis.set(call, text.replace(/\d+$/, String(Date.now() + 3_600_000)));
    assert.equal(termsOf(await leases.lease(lease, 4_000, 40))[1], lasts);
    await world.redis.set(call, text.replace(/\d+$/, String(Date.now() - 5_000)));
    assert.equal(termsOf(await leases.lease(lease, 4_000, 40))[1], 0);
    assert.equal((await leases.lease(newRid(), 4_000, 40, 0)).number, 0, "one that lasts no time is none");
  });

  it("is asked back when a call would be refused for what it holds, and the call is then granted", async () => {
    const payer = await fundedActor(world.hot, 8_000);
    const leases = leasesOf(payer);
    const other = leasesOf(payer, "another-relay");
    const [lease, call] = [newRid(), newRid()];
    await leases.lease(lease, 1_000, 40);
    const asked = await other.reserve(call, 7_500);
    assert.deepEqual([asked.code, asked.recalled], [Verdict.RECALLED, []], "the other relay has nothing to give back");
    // As one stands that was heard while the clock was ahead, and not since.
    await world.redis.zadd("{auth-quota}:sessions", Date.now() + 3_600_000, payer.session);
    assert.equal((await other.reserve(call, 7_500)).code, Verdict.RECALLED, "it is asked for, not taken");
    assert.deepEqual((await leases.beat()).recalledLeases, [lease]);
    assert.deepEqual((await leases.beat()).recalledLeases, [lease], "until it is");
    assert.equal((await other.reserve(call, 7_500)).code, Verdict.RECALLED);
    await leases.release(lease);
    assert.deepEqual((await leases.beat()).recalledLeases, []);
    assert.equal((await other.reserve(call, 7_500)).code, Verdict.OK);
    assert.equal((await other.reserve(newRid(), 7_500)).code, Verdict.BALANCE, "nothing else can come back");
  });

  it("takes no more than its share of an account's limit", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    await payer.limitAccount(8_000n, 2);
    const leases = leasesOf(payer);
    assert.equal((await leases.lease(newRid(), 4_000, 40)).number, 1_000);
    assert.equal((await leases.reserve(newRid(), 7_500)).code, Verdict.RECALLED);
  });

  it("is asked back for an extension too", async () => {
    const payer = await fundedActor(world.hot, 8_000);
    const leases = leasesOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await leases.reserve(call, 100);
    await leases.lease(lease, 900, 40);
    assert.equal((await leases.extend(call, 7_900)).code, Verdict.RECALLED);
    await leases.release(lease);
    assert.equal((await leases.extend(call, 7_900)).code, Verdict.OK);
  });

  it("is asked back when its key or account changes", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const [first, second] = [newRid(), newRid()];
    await leases.lease(first, 1_000, 20);
    const { account: accountId, key: keyId } = payer;
    const open = {
      expiresAtMs: undefined,
      limitNanos: undefined,
      models: [],
      maxConcurrent: 0,
      requestsPerMinute: 0,
      addresses: [],
    };
    await world.hot.apply("", [writeKey({ keyId, accountId, status: "active", ...open, version: 2n })]);
    assert.deepEqual((await leases.beat()).recalledLeases, [first]);
    await leases.release(first);
    await leases.lease(second, 1_000, 20);
    const limits = { requestsPerMinute: 0, maxConcurrent: 0, limitNanos: null };
    const settings = { accountId, status: "suspended", ...limits, version: 2n };
    await world.hot.apply("", [writeAccount(settings)]);
    assert.deepEqual((await leases.beat()).recalledLeases, [second]);
    assert.equal((await leases.lease(newRid(), 1_000, 20)).code, Verdict.KEY_INVALID);
  });

  it("ends with its relay, whatever it has told of", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const [lease, call] = [newRid(), newRid()];
    await leases.lease(lease, 4_000, 40);
    await leases.draw(call, lease, 300);
    await payer.endSession();
    const { heldNanos, openHolds, unpostedNanos } = await payer.sums();
    assert.deepEqual([heldNanos, openHolds, unpostedNanos], [0, 0, 0]);
    assert.equal(await world.redis.hget(`{auth-quota}:account:${payer.account}`, "leases"), "");
    const { code, number } = await leases.draw(newRid(), lease, 50);
    assert.deepEqual([code, number], [answerCodes.need, need.proof], "a late one must be proven");
    assert.equal((await leases.drawProven(newRid(), 50)).code, Verdict.OK, "for it may have been served");
    assert.equal((await payer.sums()).heldNanos, 50);
  });

  it("is nobody else's: no draw of another relay, key or amount comes out of it", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const lease = newRid();
    await leasesOf(payer).lease(lease, 1_000, 8);
    assert.equal((await leasesOf(payer, "another-relay").draw(newRid(), lease, 100)).code, answerCodes.need);
    assert.equal((await leasesOf(payer).draw(newRid(), lease, 1_001)).code, answerCodes.need);
    await leasesOf(payer, "another-relay").release(lease);
    const { heldNanos, openHolds } = await payer.sums();
    assert.deepEqual([heldNanos, openHolds], [1_000, 8]);
    await assertAudited(payer);
  });

  it("counts the addresses of its calls, and tells which has used up its rate", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const [lease, ip] = [newRid(), "10.9.9.9"];
    await leases.lease(lease, 1_000, 20);
    for (let calls = 0; calls < 5; calls += 1)
      assert.equal((await leases.draw(newRid(), lease, 1, ip)).code, Verdict.OK);
    const rid = newRid();
    const { code, number } = await leases.draw(rid, lease, 1, ip);
    assert.equal(code, Verdict.IP_RATE);
    assert.ok(number > 0 && number <= 12, `${number} s`);
    assert.equal(await payer.lookup(rid), 1, "the hold is there");
    assert.equal((await payer.authorize(ip)).code, Verdict.IP_RATE);
  });

  it("that its relay has forgotten is ended a minute after its end, and not before", async () => {
    const payer = await fundedActor(world.hot, 80_000);
    const leases = leasesOf(payer);
    const lease = newRid();
    await leases.lease(lease, 1_000, 20);
    const sweepAt = async (endsMs: number): Promise<number> => {
      const name = `{auth-quota}:call:${lease}`;
      const text = (await world.redis.get(name)) ?? "";
      await world.redis.set(name, text.replace(/\d+$/, String(endsMs)));
      await world.redis.zadd("{auth-quota}:leases", endsMs, lease);
      await leases.beat();
      return (await world.hot.apply("", [["sweep-leases", "10"]]))[0]?.number ?? -1;
    };
    const floor = Number(await world.redis.hget("{auth-quota}:service", "floor"));
    assert.equal(await sweepAt(Date.now() - 55_000), 0);
    await world.redis.hset("{auth-quota}:service", "floor", floor - 120_000);
    assert.equal(await sweepAt(Date.now() - 65_000), 1);
    assert.equal((await payer.sums()).heldNanos, 0);
  });
});
