import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { Verdict, type ResultSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { EndCause, RecordKind, UsageRecordedSchema, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { guardLive, guardStream } from "./guard.ts";
import type { LiveCall } from "../live-call.ts";
import { liveCallOf, memorySpool, scriptedQuota, settlingOf } from "../testing/fakes.ts";

const costOf = (record: Uint8Array): bigint => fromBinary(UsageRecordedSchema, record).costNanos;

type Answer = MessageInitShape<typeof ResultSchema>;

/** A running stream whose cost the test sets; it holds 1 USD and has 0.000,1 USD of input behind it. */
function runningStream(answer: (name: string | undefined) => Answer | Promise<Answer> = () => ({})) {
  const quota = scriptedQuota((operation) => answer(operation.case));
  const settling = settlingOf({ quota });
  const cuts: EndCause[] = [];
  const call = liveCallOf({ cut: (endCause) => cuts.push(endCause), checkpointAtMs: 0 });
  call.tally.hasContent = true;
  const inputNanos = 100_000;
  const nanosPerToken = 2_000;
  return {
    call,
    cuts,
    quota,
    settling,
    extends: () => quota.of("extend").map(({ totalNanos }) => totalNanos),
    checkpoints: () => quota.of("checkpoint").map(({ costNanos }) => costNanos),
    /** Looks at the stream when it has cost `costNanos` in all, then lets answers arrive. */
    look: async (costNanos: number, nowMs = 0) => {
      call.tally.contentTokens = (costNanos - inputNanos) / nanosPerToken;
      guardStream(settling, call, nowMs);
      await new Promise(setImmediate);
    },
  };
}

/** Keeps checkpoints out of the way. */
const quietCheckpoints = (call: LiveCall): void => void (call.checkpointNanos = Infinity);

const dollar = 1_000_000_000;

test("a hold is asked to grow at 80 % of it, not before, to half as much again", async () => {
  const stream = runningStream(() => ({ verdict: Verdict.OK, heldNanos: 1_500_000_001n }));
  quietCheckpoints(stream.call);
  await stream.look(0.8 * dollar - 2_000);
  assert.deepEqual(stream.extends(), []);
  await stream.look(0.8 * dollar);
  assert.deepEqual(stream.extends(), [1_500_000_001n]);
  assert.equal(stream.call.heldNanos, 1_500_000_001n);
  await stream.look(1.1 * dollar);
  assert.deepEqual(stream.cuts, [], "the larger hold carries it on");
  assert.equal(stream.extends().length, 1);
  await stream.look(1.2 * dollar + 2_000);
  assert.deepEqual(stream.extends(), [1_500_000_001n, 2_250_000_002n]);
});

for (const { name, heldNanos, cuts } of [
  { name: "BALANCE", heldNanos: 1_000_000_000n, cuts: [EndCause.HOLD_EXHAUSTED] },
  { name: "OK", heldNanos: 3_000_000_000n, cuts: [] },
] as const) {
  test(`while the answer is out the stream goes on to 100 % and waits there; then ${name}`, async () => {
    const answer = Promise.withResolvers<Answer>();
    const stream = runningStream(() => answer.promise);
    quietCheckpoints(stream.call);
    const waits: boolean[] = [];
    stream.call.holdBack = (isHeld) => void waits.push(isHeld);
    await stream.look(0.9 * dollar);
    assert.deepEqual(waits, []);
    await stream.look(1.5 * dollar, 10_000);
    assert.equal(stream.extends().length, 1, "nothing is asked twice");
    assert.deepEqual(stream.cuts, []);
    assert.deepEqual(waits, [true]);
    answer.resolve({ verdict: Verdict[name], heldNanos });
    await new Promise(setImmediate);
    assert.deepEqual(waits, [true, false]);
    assert.deepEqual(stream.cuts, cuts, "nobody need look again");
  });
}

test("what comes while the stream is let go on is looked at with the larger hold", async () => {
  const stream = runningStream(() => ({ verdict: Verdict.OK, heldNanos: 1_500_000_001n }));
  quietCheckpoints(stream.call);
  stream.call.holdBack = (isHeld) => {
    if (!isHeld) void stream.look(1.1 * dollar);
  };
  await stream.look(dollar);
  assert.deepEqual([stream.extends().length, stream.cuts], [1, []]);
});

test("nothing decided: the stream waits at 100 %, asks once a second and goes on with a yes", async () => {
  let verdict: Verdict = Verdict.UNAVAILABLE;
  const stream = runningStream(() => ({ verdict, heldNanos: 3_000_000_000n }));
  quietCheckpoints(stream.call);
  const waits: boolean[] = [];
  stream.call.holdBack = (isHeld) => void waits.push(isHeld);
  await stream.look(0.9 * dollar, 5_000);
  await stream.look(0.95 * dollar, 5_999);
  assert.deepEqual([stream.extends().length, waits], [1, []]);
  await stream.look(dollar, 6_000);
  assert.deepEqual([stream.extends().length, waits, stream.cuts], [2, [true], []]);
  verdict = Verdict.OK;
  await stream.look(dollar, 7_000);
  assert.deepEqual([waits.at(-1), stream.cuts], [false, []]);
  verdict = Verdict.BALANCE;
  await stream.look(3 * dollar, 7_001);
  assert.deepEqual([waits.at(-1), stream.cuts], [false, [EndCause.HOLD_EXHAUSTED]]);
});

test("a hold that is not known yet: the stream waits for what tells of it, a draw of a lease or a restore", async () => {
  let verdict: Verdict = Verdict.NO_HOLD;
  const stream = runningStream(() => ({ verdict, heldNanos: 3_000_000_000n }));
  quietCheckpoints(stream.call);
  const waits: boolean[] = [];
  stream.call.holdBack = (isHeld) => void waits.push(isHeld);
  await stream.look(0.9 * dollar, 5_000);
  await stream.look(dollar, 6_000);
  assert.deepEqual([waits, stream.cuts], [[true], []]);
  verdict = Verdict.OK;
  await stream.look(dollar, 7_000);
  assert.deepEqual([waits.at(-1), stream.cuts], [false, []]);
});

test("nothing decided for 30 s: the stream is cut", async () => {
  const stream = runningStream(() => ({ verdict: Verdict.UNAVAILABLE, heldNanos: 0n }));
  quietCheckpoints(stream.call);
  stream.call.holdBack = () => undefined;
  await stream.look(dollar, 5_000);
  await stream.look(dollar, 34_999);
  assert.deepEqual(stream.cuts, []);
  await stream.look(dollar, 36_000);
  assert.deepEqual(stream.cuts, [EndCause.HOLD_EXHAUSTED]);
});

for (const name of ["BALANCE", "KEY_LIMIT", "NO_HOLD", "UNAVAILABLE"] as const) {
  test(`refused with ${name}, nothing to hold back: the stream uses up what it has and is cut at 100 %`, async () => {
    const stream = runningStream(() => ({ verdict: Verdict[name], heldNanos: 0n }));
    quietCheckpoints(stream.call);
    await stream.look(0.8 * dollar);
    await stream.look(dollar - 2_000);
    assert.deepEqual(stream.cuts, []);
    assert.equal(stream.call.heldNanos, 1_000_000_000n, "a no changes nothing");
    await stream.look(dollar);
    assert.deepEqual(stream.cuts, [EndCause.HOLD_EXHAUSTED]);
  });
}

test("after a no it asks again once a second, and a later yes carries it on", async () => {
  let verdict: Verdict = Verdict.BALANCE;
  let heldNanos = 3_000_000_000n;
  const stream = runningStream(() => ({ verdict, heldNanos }));
  quietCheckpoints(stream.call);
  await stream.look(0.8 * dollar, 5_000);
  await stream.look(0.85 * dollar, 5_999);
  assert.equal(stream.extends().length, 1);
  verdict = Verdict.OK;
  await stream.look(0.9 * dollar, 6_000);
  assert.equal(stream.extends().length, 2);
  heldNanos = 4_500_000_001n;
  await stream.look(3 * dollar, 6_001);
  assert.deepEqual(stream.cuts, [], "the no is forgotten: the larger hold is asked to grow before anything is cut");
  assert.equal(stream.extends().length, 3);
});

test("the first checkpoint comes after 2 s, the next ones every 5 s", async () => {
  const stream = runningStream();
  await stream.look(200_000, 1_999);
  assert.deepEqual(stream.checkpoints(), []);
  await stream.look(300_000, 2_000);
  assert.deepEqual(stream.checkpoints(), [300_000n]);
  await stream.look(400_000, 6_999);
  assert.equal(stream.checkpoints().length, 1);
  await stream.look(500_000, 7_000);
  assert.deepEqual(stream.checkpoints(), [300_000n, 500_000n]);
});

test("a checkpoint comes with every 0.01 USD, however fast", async () => {
  const stream = runningStream();
  await stream.look(9_998_000, 1);
  assert.deepEqual(stream.checkpoints(), []);
  await stream.look(10_000_000, 1);
  await stream.look(19_998_000, 1);
  assert.deepEqual(stream.checkpoints(), [10_000_000n]);
  await stream.look(20_000_000, 1);
  assert.deepEqual(stream.checkpoints(), [10_000_000n, 20_000_000n]);
});

test("a checkpoint carries the provisional record to book should the relay go silent", async () => {
  const stream = runningStream();
  await stream.look(300_000, 2_000);
  const [checkpoint] = stream.quota.of("checkpoint");
  assert.ok(checkpoint);
  assert.equal(checkpoint.rid, stream.call.rid);
  const record = fromBinary(UsageRecordedSchema, checkpoint.record);
  assert.equal(record.rid, stream.call.rid);
  assert.equal(record.kind, RecordKind.PROVISIONAL);
  assert.equal(record.endCause, EndCause.RELAY_LOST);
  assert.equal(record.usageSource, UsageSource.ESTIMATED);
  assert.equal(record.costNanos, 300_000n);
  assert.equal(record.usage?.outputTokens, 100n);
  assert.deepEqual([record.relaySession, record.sequence], ["", 0n], "it is outside the numbering");
});

test("what has no content yet, or has ended, is left alone", async () => {
  const silent = runningStream();
  silent.call.tally.hasContent = false;
  await silent.look(5 * dollar, 60_000);
  const ended = runningStream();
  ended.call.endCause = EndCause.COMPLETE;
  await ended.look(5 * dollar, 60_000);
  assert.deepEqual([...silent.quota.operations, ...ended.quota.operations], []);
});

test("a stream that has cost nothing has nothing to write down", async () => {
  const stream = runningStream();
  stream.call.model = { ...stream.call.model, prices: {} };
  await stream.look(300_000, 2_000);
  assert.deepEqual(stream.checkpoints(), []);
});

test("the regular look hangs up on a caller who has not read for a minute, and looks after the money of all", async () => {
  const left: number[] = [];
  const callStalledFor = (stalledMs: number): LiveCall => {
    const call = liveCallOf({ stalledMs: () => stalledMs, heldNanos: 1n });
    call.hangUp = () => void left.push(stalledMs);
    call.tally.hasContent = true;
    return call;
  };
  const quota = scriptedQuota();
  guardLive(settlingOf({ quota }), new Set([callStalledFor(0), callStalledFor(60_000), callStalledFor(60_001)]));
  assert.deepEqual(left, [60_001]);
  assert.equal(quota.of("extend").length, 3);
});

test("what a stream cost so far goes into the spool every 250 ms, whether or not auth-quota is told", async () => {
  const stream = runningStream();
  const spool = memorySpool();
  const written: bigint[] = [];
  stream.settling.spool = { ...spool, checkpoint: (_rid, record) => void written.push(costOf(record)) };
  stream.call.spooledAtMs = 0;
  for (const [nowMs, costNanos] of [
    [249, 200_000],
    [250, 300_000],
    [400, 350_000],
    [499, 400_000],
    [500, 500_000],
  ] as const) {
    await stream.look(costNanos, nowMs);
  }
  assert.deepEqual(written, [300_000n, 500_000n]);
  assert.deepEqual(stream.checkpoints(), []);
  await stream.look(600_000, 2_000);
  assert.deepEqual(written.at(-1), 600_000n);
  assert.deepEqual(stream.checkpoints(), [600_000n]);
});
