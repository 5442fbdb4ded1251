import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it, mock } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause, RecordKind, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { isProven, leaseSecrets } from "#shared/money/hold-proof.ts";
import { createRid, ridTimeMs } from "#shared/money/rid.ts";
import type { LiveCall } from "../live-call.ts";
import { guardStream } from "../stream/guard.ts";
import { liveCallOf, memorySpool, scriptedQuota, settlingOf } from "../testing/fakes.ts";
import { createLeases, leaseSettings } from "./leases.ts";
import { createRestore } from "./restore.ts";
import { replaySpool } from "./replay-spool.ts";
import { confirmBooked, release, settle } from "./settle.ts";

const proofKey = randomBytes(32);
const payer = { accountId: "acct_1", keyId: "key_1" };
const keyHash = Buffer.alloc(32, 7);
const ip = "192.0.2.1";
const dollar = 1_000_000_000n;

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

type Answers = { charged?: Verdict; state?: CallState; heldBack?: boolean };

/** A relay with a lease of ten dollars and ten calls, on a clock of its own. */
async function leasedRelay({ charged = Verdict.OK, state = CallState.POSTED, heldBack = false }: Answers = {}) {
  let nowMs = 1_000;
  const clock = mock.method(performance, "now", () => nowMs);
  const answers: (() => void)[] = [];
  const quota = scriptedQuota((operation) => {
    if (operation.case === "lookupLeased") return { states: Uint8Array.from([state]) };
    if (operation.case === "settle" || operation.case === "draw") {
      const answer = { verdict: charged, retryAfterSeconds: 2 };
      return heldBack ? new Promise((resolve) => answers.push(() => resolve(answer))) : answer;
    }
    if (operation.case !== "lease") return {};
    const holdSecret = leaseSecrets(proofKey, payer, ridTimeMs(operation.value.rid) ?? 0);
    const terms = { heldNanos: 10n * dollar, calls: 10, lastsMs: 10_000, ipPerMinute: 600, maySettleLeased: true };
    return { ...payer, ...terms, holdSecret };
  });
  let recall: (rids: readonly string[]) => void = () => undefined;
  const session = { ...quota, onRecalled: (listener: typeof recall) => void (recall = listener) };
  const counts = { admitted: () => undefined, recalled: () => undefined };
  const leases = createLeases(session, counts, { ...leaseSettings, leastPerSecond: 10 });
  const wanted = () => ({ keyHash, ip, rid: createRid(), model: "m", estimateNanos: dollar });
  for (let calls = 0; calls < 25; calls += 1) {
    leases.noteAdmitted(wanted());
    nowMs += 50;
  }
  await settled();
  const spool = memorySpool();
  const settling = settlingOf({ quota, spool });
  const leaseRid = quota.of("lease")[0]?.rid ?? "";
  const admit = (): LiveCall | undefined => {
    const { rid, ...asked } = wanted();
    const hold = leases.admit({ rid, ...asked });
    return hold && liveCallOf({ ...hold, rid, leased: hold.leased });
  };
  return {
    quota,
    leases,
    spool,
    settling,
    leaseRid,
    admit,
    call: (): LiveCall => {
      const call = admit();
      assert.ok(call, "it is admitted");
      return call;
    },
    recall: () => recall([leaseRid]),
    answerAll: () => answers.splice(0).forEach((answer) => answer()),
    operations: () => quota.operations.map((operation) => operation.case).filter((name) => name !== "lease"),
    pass: (ms: number) => void (nowMs += ms),
    [Symbol.dispose]: () => clock.mock.restore(),
  };
}

const recordOf = (bytes: Uint8Array | undefined) => fromBinary(UsageRecordedSchema, bytes ?? new Uint8Array());

/** Ends it at the price of its 100 tokens of input, 0.0001 USD. */
function end(relay: { settling: Parameters<typeof settle>[0] }, call: LiveCall): void {
  call.tally.usage = { inputTokens: 100n };
  settle(relay.settling, call, EndCause.COMPLETE);
}

describe("a call within a lease", () => {
  it("is told of by its charge alone, with the lease, its address and a record that says so", async () => {
    using relay = await leasedRelay();
    const call = relay.call();
    await settled();
    assert.deepEqual(relay.operations(), []);
    end(relay, call);
    assert.deepEqual(relay.operations(), ["settle"]);
    const [told] = relay.quota.of("settle");
    assert.deepEqual([told?.isLeased, told?.leaseRid, told?.ip, told?.costNanos], [true, relay.leaseRid, ip, 100_000n]);
    const record = recordOf(told?.record);
    assert.deepEqual([record.kind, record.isLeased], [RecordKind.FINAL, true]);
    assert.ok(isProven([proofKey], { rid: call.rid, ...payer }, told?.record ?? new Uint8Array()));
  });

  it("gives what was held beyond its charge to others, but none of the lease's calls", async () => {
    using relay = await leasedRelay();
    const calls = Array.from({ length: 9 }, () => relay.call());
    for (const call of calls) end(relay, call);
    assert.ok(relay.admit(), "nine dollars came back but for their cost");
    assert.equal(relay.admit(), undefined, "ten calls were made");
  });

  it("asks what became of it by its key, until it is booked", async () => {
    using relay = await leasedRelay();
    const call = relay.call();
    end(relay, call);
    await confirmBooked(relay.settling, Infinity);
    const [asked] = relay.quota.of("lookupLeased");
    assert.deepEqual([asked?.accountId, asked?.keyId], [payer.accountId, payer.keyId]);
    assert.equal(Buffer.from(asked?.rids ?? []).toString("hex"), call.rid.replaceAll("-", ""));
    assert.equal(relay.spool.records.size, 0);
    assert.deepEqual(relay.quota.of("lookup"), []);
  });

  it("that auth-quota has lost is told again, as what it was", async () => {
    using relay = await leasedRelay({ state: CallState.UNSPECIFIED });
    end(relay, relay.call());
    await confirmBooked(relay.settling, Infinity);
    const [first, again, ...more] = relay.quota.of("settle");
    assert.deepEqual(more, []);
    assert.deepEqual([again?.isLeased, again?.leaseRid, again?.record], [true, "", first?.record]);
  });

  it("of a dead relay is told as one within a lease", async () => {
    using relay = await leasedRelay();
    end(relay, relay.call());
    const [record = new Uint8Array()] = relay.spool.records.values();
    const spool = memorySpool({ adopt: () => new Map([["dead", { records: [record], checkpoints: [] }]]) });
    const quota = scriptedQuota();
    await replaySpool(settlingOf({ quota, spool }));
    assert.deepEqual(
      quota.of("settle").map(({ isLeased, leaseRid }) => [isLeased, leaseRid]),
      [[true, ""]],
    );
    assert.deepEqual(spool.leasedTo(recordOf(record).rid)?.keyId, payer.keyId);
  });

  it("gets a hold of its own before its hold grows, or its cost is told", async () => {
    for (const costTokens of [450_000, 10_000]) {
      using relay = await leasedRelay();
      const call = relay.call();
      call.tally.hasContent = true;
      call.tally.contentTokens = costTokens;
      guardStream(relay.settling, call);
      assert.deepEqual(relay.operations().slice(0, 2), ["draw", costTokens === 450_000 ? "extend" : "checkpoint"]);
      end(relay, call);
      const [told] = relay.quota.of("settle");
      assert.deepEqual([told?.isLeased, told?.leaseRid, recordOf(told?.record).isLeased], [false, "", false]);
      assert.equal(relay.quota.of("draw").length, 1);
    }
  });

  it("stays within it while its cost is only written down", async () => {
    using relay = await leasedRelay();
    const call = relay.call();
    call.tally.hasContent = true;
    call.tally.contentTokens = 10;
    guardStream(relay.settling, call, performance.now() + 300);
    assert.equal(relay.spool.checkpoints.size, 1);
    assert.deepEqual(relay.operations(), []);
  });

  it("that was never sent is told of by nobody, and counts when the lease is given back", async () => {
    using relay = await leasedRelay();
    release(relay.settling, relay.call());
    assert.deepEqual(relay.operations(), []);
    relay.leases.close();
    assert.deepEqual(
      relay.quota.of("release").map(({ rid, calls }) => [rid, calls]),
      [[relay.leaseRid, 1]],
    );
  });

  it("gets a hold of its own when the lease ends, which is released behind it", async () => {
    using relay = await leasedRelay({ heldBack: true });
    const [open, ended] = [relay.call(), relay.call()];
    end(relay, ended);
    relay.recall();
    await settled();
    assert.deepEqual(relay.operations(), ["settle", "draw"]);
    assert.equal(relay.quota.of("draw")[0]?.rid, open.rid);
    relay.answerAll();
    await settled();
    assert.deepEqual(relay.operations(), ["settle", "draw", "release"]);
    end(relay, open);
    assert.equal(relay.quota.of("settle")[1]?.isLeased, false);
    const late = relay.quota.of("release");
    release(relay.settling, relay.admit() ?? liveCallOf());
    assert.equal(relay.quota.of("release").length, late.length + 1, "of a call without a lease it is told");
  });

  it("is restored like any other when auth-quota has lost what it knew", async () => {
    using relay = await leasedRelay();
    const call = relay.call();
    const look = createRestore(relay.settling, new Set([call]));
    await look();
    relay.quota.setGeneration("2");
    await look();
    assert.deepEqual(
      relay.quota.of("restore").map(({ rid }) => rid),
      [call.rid],
    );
    end(relay, call);
    assert.equal(relay.quota.of("settle")[0]?.isLeased, false);
    assert.deepEqual(relay.quota.of("draw"), []);
  });

  it("from an address that has used up its rate elsewhere is charged, and the next one asks", async () => {
    using relay = await leasedRelay({ charged: Verdict.IP_RATE });
    end(relay, relay.call());
    await settled();
    assert.equal(relay.admit(), undefined);
    relay.pass(2_101);
    assert.ok(relay.admit());
  });
});
