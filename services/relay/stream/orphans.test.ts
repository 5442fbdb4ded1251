import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { EndCause, UsageRecordedSchema, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { checkpointRecord, settle } from "../charge/settle.ts";
import type { LiveCall } from "../live-call.ts";
import { listeningLog, liveCallOf, memorySpool, scriptedQuota, settlingOf } from "../testing/fakes.ts";
import { createSendSignal } from "../upstream/send.ts";
import { guardStream } from "./guard.ts";
import { createOrphans } from "./orphans.ts";

beforeEach(() => mock.timers.reset());

const drain = { action: "drain", timeoutMs: 1_000, maxOutputTokens: 50 } as const;

/** Orphans of a process that holds three of them, two of an account, and calls which settle when they are cut. */
function createWorld() {
  const { log, lines } = listeningLog();
  const spool = memorySpool();
  const quota = scriptedQuota();
  const settling = settlingOf({ log, spool, quota });
  const orphans = createOrphans(settling, { max: 3, maxPerAccount: 2 });
  const callOf = (changes: Partial<LiveCall> = {}): LiveCall => {
    const call = liveCallOf({ onCallerGone: drain, ...changes });
    call.cut = (endCause) => end(call, endCause);
    return call;
  };
  const end = (call: LiveCall, endCause: EndCause): void => {
    settle(settling, call, endCause);
    orphans.end(call);
  };
  const leave = (call: LiveCall, isBillable = true): LiveCall => {
    orphans.leave(call, { ...createSendSignal(), isBillable });
    return call;
  };
  const recordOf = ({ rid }: LiveCall) => {
    const { endCause, usageSource, costNanos } = fromBinary(
      UsageRecordedSchema,
      spool.records.get(rid) ?? assert.fail(),
    );
    return { endCause, usageSource, costNanos };
  };
  const reasons = (): unknown[] => lines.filter(({ reason }) => reason !== undefined).map(({ reason }) => reason);
  return { settling, quota, spool, orphans, callOf, end, leave, recordOf, reasons };
}

// 100 tokens at 1 USD per million, as the request counts them.
const inputNanos = 100_000n;
const { CLIENT_GONE, COMPLETE, UPSTREAM_ERROR, RELAY_LOST } = EndCause;

test("an answer that is read to its end without its caller costs what the provider counts", () => {
  const world = createWorld();
  const call = world.leave(world.callOf());
  assert.equal(world.orphans.size, 1);
  assert.equal(call.endCause, EndCause.UNSPECIFIED);
  Object.assign(call.tally, { hasContent: true, contentTokens: 5, usage: { inputTokens: 90n, outputTokens: 7n } });
  world.end(call, COMPLETE);
  const { endCause, usageSource, costNanos } = world.recordOf(call);
  assert.deepEqual([endCause, usageSource, costNanos], [CLIENT_GONE, UsageSource.PROVIDER, 90_000n + 14_000n]);
  assert.equal(world.orphans.size, 0);
  assert.deepEqual(world.reasons(), ["complete"]);
});

test("with abort, and beyond the bounds, the call is cut at once and costs its input", () => {
  const world = createWorld();
  const aborted = world.leave(world.callOf({ onCallerGone: { action: "abort" } }));
  world.leave(world.callOf());
  world.leave(world.callOf());
  const third = world.leave(world.callOf());
  world.leave(world.callOf({ accountId: "acct_2" }));
  const fourth = world.leave(world.callOf({ accountId: "acct_3" }));
  const estimated = { endCause: CLIENT_GONE, usageSource: UsageSource.ESTIMATED, costNanos: inputNanos };
  for (const call of [aborted, third, fourth]) assert.deepEqual(world.recordOf(call), estimated);
  assert.equal(world.orphans.size, 3);
  assert.deepEqual(world.reasons(), ["abort", "account_full", "process_full"]);
});

test("an account may have as many streams as it leaves to others", () => {
  const { settling } = createWorld();
  const orphans = createOrphans(settling, { max: 10, maxPerAccount: 2 });
  const leave = (accountId: string, isStream = true): boolean => {
    const before = orphans.size;
    orphans.leave(liveCallOf({ onCallerGone: drain, accountId, isStream }), {
      ...createSendSignal(),
      isBillable: true,
    });
    return orphans.size > before;
  };
  const left = Array.from({ length: 7 }, () => leave("acct_1"));
  assert.deepEqual(left, [true, true, true, true, true, false, false]);
  assert.equal(leave("acct_1", false), false, "a whole answer");
  assert.deepEqual([leave("acct_2"), leave("acct_2"), leave("acct_2")], [true, true, true]);
  assert.equal(leave("acct_3", false), true);
});

test("an orphan that ends makes room for the next of its account", () => {
  const world = createWorld();
  const first = world.leave(world.callOf());
  world.leave(world.callOf());
  world.end(first, COMPLETE);
  world.leave(world.callOf());
  assert.equal(world.orphans.size, 2);
});

test("nothing is owed before an upstream has the whole request, nor for an error of it", () => {
  const world = createWorld();
  const unsent = world.leave(world.callOf(), false);
  const failed = world.leave(world.callOf());
  world.end(failed, UPSTREAM_ERROR);
  const free = { usageSource: UsageSource.NONE, costNanos: 0n };
  assert.deepEqual(world.recordOf(unsent), { ...free, endCause: CLIENT_GONE });
  assert.deepEqual(world.recordOf(failed), { ...free, endCause: UPSTREAM_ERROR });
  assert.deepEqual(world.reasons(), ["upstream_error"]);
});

test("a caller who leaves behind the charge changes nothing, and the upstream is let go", () => {
  const world = createWorld();
  const call = world.callOf();
  settle(world.settling, call, COMPLETE);
  let cuts = 0;
  call.cut = () => (cuts += 1);
  world.leave(call);
  assert.deepEqual([cuts, call.isOrphan, call.endCause, world.orphans.size], [1, false, COMPLETE, 0]);
});

test("an answer is not read on for longer than its upstream's time", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const world = createWorld();
  const call = world.leave(world.callOf());
  mock.timers.tick(999);
  assert.equal(world.orphans.size, 1);
  mock.timers.tick(1);
  assert.equal(world.orphans.size, 0);
  assert.equal(world.recordOf(call).costNanos, inputNanos);
  assert.deepEqual(world.reasons(), ["timeout"]);
});

test("nor for more than its upstream's tokens behind what had come", () => {
  const world = createWorld();
  const call = world.callOf();
  Object.assign(call.tally, { hasContent: true, contentTokens: 30 });
  world.leave(call);
  call.tally.contentTokens = 80;
  guardStream(world.settling, call);
  assert.equal(world.orphans.size, 1);
  call.tally.contentTokens = 81;
  guardStream(world.settling, call);
  assert.equal(world.orphans.size, 0);
  assert.equal(world.recordOf(call).costNanos, inputNanos + 81n * 2_000n);
  assert.deepEqual(world.reasons(), ["max_tokens"]);
});

test("a kill while an answer is read on charges what is known: at once the input, then what came", () => {
  const world = createWorld();
  const call = world.leave(world.callOf());
  const read = (bytes: Uint8Array | undefined) =>
    fromBinary(UsageRecordedSchema, bytes ?? assert.fail("no checkpoint"));
  const first = read(world.spool.checkpoints.get(call.rid));
  assert.deepEqual([first.endCause, first.costNanos], [RELAY_LOST, inputNanos]);
  assert.equal(world.quota.of("checkpoint").length, 1);
  guardStream(world.settling, call, performance.now() + 10_000);
  assert.equal(world.quota.of("checkpoint").length, 2, "it is written down as any other while it has no content");
  Object.assign(call.tally, { hasContent: true, contentTokens: 10 });
  assert.equal(read(checkpointRecord(call).record).costNanos, inputNanos + 20_000n);
});
