import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it, mock } from "node:test";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { holdSecret, isProven, leaseSecrets, withProof } from "#shared/money/hold-proof.ts";
import { createRid, ridTimeMs } from "#shared/money/rid.ts";
import { scriptedQuota } from "../testing/fakes.ts";
import { createLeases, leaseSettings, type Leases, type WantedCall } from "./leases.ts";

const proofKey = randomBytes(32);
const payer = { accountId: "acct_1", keyId: "key_1" };
const keyHash = Buffer.alloc(32, 7);

type Terms = { heldNanos?: bigint; calls?: number; lastsMs?: number; models?: string[]; ipPerMinute?: number };

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Leases on a clock of their own, of a key whose calls come twenty a second, each of 100 nano-USD. */
function setUp(terms: Terms = {}, drawn: { verdict: Verdict; retryAfterSeconds?: number } = { verdict: Verdict.OK }) {
  let nowMs = 1_000;
  const clock = mock.method(performance, "now", () => nowMs);
  const usual = { heldNanos: 10_000n, calls: 100, lastsMs: 10_000, models: [], ipPerMinute: 600 };
  let held: (() => void) | undefined;
  const quota = scriptedQuota((operation) => {
    if (operation.case === "authorize") return drawn;
    if (operation.case === "draw" && held) return new Promise((resolve) => void (held = () => resolve(drawn)));
    if (operation.case === "draw") return drawn;
    if (operation.case !== "lease") return {};
    if (isUnanswered) return { verdict: Verdict.UNAVAILABLE };
    const secrets = leaseSecrets(proofKey, payer, ridTimeMs(operation.value.rid) ?? 0);
    return { ...payer, ...usual, ...terms, holdSecret: secrets };
  });
  const counted = { admitted: 0, recalled: 0 };
  const counts = { admitted: () => void (counted.admitted += 1), recalled: () => void (counted.recalled += 1) };
  let isUnanswered = false;
  let hasRoom = true;
  let recall: (rids: readonly string[]) => void = () => undefined;
  const session = {
    ...quota,
    hasRoom: () => hasRoom,
    onRecalled: (listener: typeof recall) => void (recall = listener),
  };
  const leases = createLeases(session, counts, { ...leaseSettings, leastPerSecond: 10 });
  const wanted = (changes: Partial<WantedCall> = {}): WantedCall => ({
    keyHash,
    ip: "",
    rid: createRid(),
    model: "m",
    estimateNanos: 100n,
    ...changes,
  });
  return {
    quota,
    leases,
    wanted,
    counted,
    clock,
    recall: (rids: readonly string[]) => recall(rids),
    admit: (changes: Partial<WantedCall> = {}) => leases.admit(wanted(changes)),
    pass: (ms: number) => void (nowMs += ms),
    setAnswered: (isAnswered: boolean) => void (isUnanswered = !isAnswered),
    setRoom: (next: boolean) => void (hasRoom = next),
    /** Calls that are all admitted here. */
    keepBusy: async (ms: number) => {
      for (let passedMs = 0; passedMs < ms; passedMs += 50) {
        nowMs += 50;
        assert.ok(leases.admit(wanted()));
        await settled();
      }
    },
    holdBackDraws: () => void (held = () => undefined),
    answerDraws: () => held?.(),
    /** Calls that auth-quota admits, until there is a lease. */
    warmUp: async () => {
      for (let calls = 0; calls < 25; calls += 1) {
        leases.noteAdmitted(wanted());
        nowMs += 50;
      }
      await settled();
    },
    [Symbol.dispose]: () => clock.mock.restore(),
  };
}

const leaseRidOf = ({ quota }: { quota: ReturnType<typeof scriptedQuota> }): string => quota.of("lease")[0]?.rid ?? "";

describe("leases", () => {
  it("are asked for where calls come often, for what they take until the lease ends and half as much again", async () => {
    using world = setUp();
    assert.equal(world.admit(), undefined);
    await world.warmUp();
    const [asked, ...others] = world.quota.of("lease");
    assert.deepEqual(others, []);
    assert.deepEqual([asked?.calls, asked?.estimateNanos], [300, 30_000n]);
    assert.deepEqual(Buffer.from(asked?.keyHash ?? []), keyHash);
  });

  it("are asked for by the busiest and the dearest of the last seconds, so that a calm one makes none too small", async () => {
    using world = setUp();
    const pass = (calls: number, stepMs: number, estimateNanos: bigint): void => {
      for (let call = 0; call < calls; call += 1) {
        world.pass(stepMs);
        world.leases.noteAdmitted(world.wanted({ estimateNanos }));
      }
    };
    pass(9, 125, 100_000n);
    pass(11, 100, 100n);
    await settled();
    const [asked] = world.quota.of("lease");
    assert.ok(asked, "the second second had enough calls");
    // 80 % of the first one's mean, which fits 120 of its calls.
    assert.deepEqual([asked.calls, asked.estimateNanos], [150, 80_000n * 150n]);
  });

  it("are not asked for where calls are rare", async () => {
    using world = setUp();
    for (let calls = 0; calls < 50; calls += 1) {
      world.leases.noteAdmitted(world.wanted());
      world.pass(150);
    }
    assert.deepEqual(world.quota.operations, []);
  });

  it("admit calls at once, tell of each, and prove it as auth-quota would have", async () => {
    using world = setUp();
    await world.warmUp();
    const call = world.wanted({ ip: "192.0.2.1" });
    const admitted = world.leases.admit(call);
    assert.ok(admitted, "it is admitted");
    const { accountId, keyId, heldNanos } = admitted;
    assert.deepEqual({ accountId, keyId, heldNanos }, { ...payer, heldNanos: 100n });
    const [draw] = world.quota.of("draw");
    const { $typeName: _, ...told } = draw as object & { $typeName: string };
    const { rid, ip } = call;
    const { holdSecret: secret } = admitted;
    assert.deepEqual(told, { rid, leaseRid: leaseRidOf(world), ...payer, heldNanos: 100n, ip, holdSecret: secret });
    const record = withProof(admitted.holdSecret, Buffer.from("a record"));
    assert.ok(isProven([proofKey], { rid, ...payer }, record));
    assert.ok(!isProven([proofKey], { rid: createRid(), ...payer }, record), "for no other call");
    assert.ok(!Buffer.from(admitted.holdSecret).equals(holdSecret(proofKey, { rid, ...payer })));
  });

  it("give no more than they have, in money and in calls", async () => {
    using rich = setUp({ calls: 3 });
    await rich.warmUp();
    assert.deepEqual(
      [1, 2, 3, 4].map(() => rich.admit() !== undefined),
      [true, true, true, false],
    );
    using poor = setUp({ heldNanos: 250n });
    await poor.warmUp();
    assert.deepEqual(
      [1, 2, 3].map(() => poor.admit() !== undefined),
      [true, true, false],
    );
    assert.ok(poor.admit({ estimateNanos: 50n }), "what is left is enough for a smaller one");
  });

  it("admit only what the key may ask for", async () => {
    using world = setUp({ models: ["m", "n"] });
    await world.warmUp();
    assert.ok(world.admit({ model: "n" }));
    assert.equal(world.admit({ model: "o" }), undefined);
    assert.equal(world.admit({ keyHash: Buffer.alloc(32, 8) }), undefined, "another key");
  });

  it("end by the time they were asked for, and are given back", async () => {
    using world = setUp();
    await world.warmUp();
    // It was asked for with the first call after a second.
    world.pass(9_700);
    assert.ok(world.admit());
    world.pass(50);
    assert.equal(world.admit(), undefined);
    world.leases.sweep();
    await settled();
    assert.deepEqual(
      world.quota.of("release").map(({ rid }) => rid),
      [leaseRidOf(world)],
    );
    assert.equal(world.leases.size(), 0);
  });

  it("that are not used for two seconds are given back", async () => {
    using world = setUp();
    await world.warmUp();
    world.pass(2_001);
    world.leases.sweep();
    assert.equal(world.quota.of("release").length, 1);
  });

  it("are followed by the next one when half is used, and the first is given back behind its draws", async () => {
    using world = setUp({ calls: 10 });
    await world.warmUp();
    world.holdBackDraws();
    for (let calls = 0; calls < 6; calls += 1) world.admit();
    await settled();
    assert.equal(world.quota.of("lease").length, 2);
    assert.ok(world.admit(), "by the second one");
    assert.deepEqual(world.quota.of("release"), [], "the first has draws that are not answered");
  });

  it("that are asked back admit nothing, and are released when their draws are answered", async () => {
    using world = setUp();
    await world.warmUp();
    world.holdBackDraws();
    world.admit();
    world.recall(["another"]);
    assert.ok(world.quota.of("draw").length === 1 && world.leases.size() === 1, "another one is not this one");
    world.recall([leaseRidOf(world)]);
    assert.equal(world.admit(), undefined);
    assert.deepEqual(world.counted, { admitted: 1, recalled: 1 });
    assert.deepEqual(world.quota.of("release"), []);
    world.answerDraws();
    await settled();
    assert.deepEqual(
      world.quota.of("release").map(({ rid }) => rid),
      [leaseRidOf(world)],
    );
    await world.warmUp();
    assert.equal(world.quota.of("lease").length, 1, "and no other is asked for at once");
  });

  it("are void when auth-quota has lost what it knew", async () => {
    using world = setUp();
    await world.warmUp();
    world.quota.setGeneration("2");
    assert.equal(world.admit(), undefined);
  });

  it("are given back when something was lost between their grant and its answer", async () => {
    using world = setUp();
    const warm = world.warmUp();
    world.quota.setGeneration("2");
    await warm;
    assert.equal(world.admit(), undefined);
    assert.deepEqual(
      world.quota.of("release").map(({ rid }) => rid),
      [leaseRidOf(world)],
    );
  });

  it("admit nothing of which they could not tell", async () => {
    using world = setUp();
    await world.warmUp();
    world.setRoom(false);
    assert.equal(world.admit(), undefined);
    world.setRoom(true);
    assert.ok(world.admit());
  });

  it("are followed by the next one early, so that most of their length is left when auth-quota goes away", async () => {
    using world = setUp({ calls: 1_000, heldNanos: 100_000n });
    await world.warmUp();
    await world.keepBusy(1_700);
    assert.equal(world.quota.of("lease").length, 1);
    world.setAnswered(false);
    await world.keepBusy(200);
    assert.equal(world.quota.of("lease").length, 2);
    assert.equal(world.quota.of("release").length, 1, "it may have been granted");
    await world.keepBusy(800);
    assert.equal(world.quota.of("lease").length, 2, "not again at once");
    world.setAnswered(true);
    await world.keepBusy(300);
    assert.equal(world.quota.of("lease").length, 3);
    world.setAnswered(false);
    await world.keepBusy(9_500);
  });

  it("count the calls of an address, and hear where others have used up its rate", async () => {
    using world = setUp({ ipPerMinute: 3 });
    await world.warmUp();
    const ip = "192.0.2.1";
    assert.deepEqual(
      [1, 2, 3, 4].map(() => world.admit({ ip }) !== undefined),
      [true, true, true, false],
    );
    assert.ok(world.admit({ ip: "192.0.2.2" }));
    world.pass(20_001);
    using told = setUp({}, { verdict: Verdict.IP_RATE, retryAfterSeconds: 2 });
    await told.warmUp();
    assert.ok(told.admit({ ip }), "it was not known yet");
    await settled();
    assert.equal(told.admit({ ip }), undefined);
    told.pass(2_101);
    assert.ok(told.admit({ ip }));
  });

  it("check their key at once, and tell of its address", async () => {
    using world = setUp({ models: ["m", "n"], calls: 2 });
    const asking = { keyHash, ip: "192.0.2.1" };
    assert.equal(world.leases.authorize(asking), undefined);
    await world.warmUp();
    const found = world.leases.authorize(asking);
    assert.deepEqual([found?.verdict, found?.accountId, found?.keyId], [Verdict.OK, payer.accountId, payer.keyId]);
    assert.deepEqual(found?.models, ["m", "n"]);
    assert.deepEqual(
      world.quota.of("authorize").map(({ ip }) => ip),
      ["192.0.2.1"],
    );
    assert.ok(world.leases.authorize({ keyHash, ip: "" }));
    assert.equal(world.quota.of("authorize").length, 1, "nothing is counted");
    assert.ok(world.admit() && world.admit());
    assert.equal(world.leases.authorize(asking), undefined, "nothing is left: the limit may be used up");
  });

  it("check no key that may have changed, and none from an address beyond its rate", async () => {
    using world = setUp({ ipPerMinute: 2 }, { verdict: Verdict.IP_RATE, retryAfterSeconds: 2 });
    const authorize = (ip: string) => world.leases.authorize({ keyHash, ip });
    await world.warmUp();
    assert.ok(authorize("192.0.2.1"));
    assert.ok(authorize("192.0.2.2") && authorize("192.0.2.2"));
    assert.equal(authorize("192.0.2.2"), undefined);
    await settled();
    assert.equal(authorize("192.0.2.1"), undefined, "auth-quota has no room for it");
    world.setRoom(false);
    assert.equal(authorize(""), undefined, "it could not tell");
    world.setRoom(true);
    assert.ok(authorize(""));
    world.recall([leaseRidOf(world)]);
    assert.equal(authorize(""), undefined);
    using late = setUp();
    await late.warmUp();
    late.pass(9_751);
    assert.equal(late.leases.authorize({ keyHash, ip: "" }), undefined);
    using lost = setUp();
    await lost.warmUp();
    lost.quota.setGeneration("2");
    assert.equal(lost.leases.authorize({ keyHash, ip: "" }), undefined);
  });

  it("that were refused are not asked for again at once", async () => {
    using world = setUp({ heldNanos: 0n });
    await world.warmUp();
    await world.warmUp();
    assert.equal(world.quota.of("lease").length, 1);
    world.pass(5_000);
    await world.warmUp();
    await world.warmUp();
    assert.equal(world.quota.of("lease").length, 2);
  });

  it("are given back when the relay stops", async () => {
    using world = setUp();
    await world.warmUp();
    const { leases }: { leases: Leases } = world;
    leases.close();
    assert.equal(world.quota.of("release").length, 1);
    assert.equal(world.admit(), undefined);
    await world.warmUp();
    assert.equal(world.quota.of("lease").length, 1);
  });
});
