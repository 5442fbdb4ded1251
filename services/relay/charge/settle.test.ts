import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import {
  EndCause,
  RecordKind,
  UsageRecordedSchema,
  UsageSource,
  type UsageRecorded,
} from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { checkpointRecord, confirmBooked, release, ridOfRecord, settle, type SettlementDeps } from "./settle.ts";
import { replaySpool } from "./replay-spool.ts";
import { guardLive } from "../stream/guard.ts";
import { liveCallOf, listeningLog, memorySpool, modelOf, scriptedQuota, settlingOf } from "../testing/fakes.ts";

const decode = (bytes: Uint8Array): UsageRecorded => fromBinary(UsageRecordedSchema, bytes);
const valueOf = async (metric: { get: () => Promise<{ values: { value: number }[] }> }): Promise<number> =>
  (await metric.get()).values[0]?.value ?? 0;

/** A call of which 100 input tokens and `outputTokens` have been served, by the provider's count. */
function servedCall(outputTokens = 50n, changes: Parameters<typeof liveCallOf>[0] = {}) {
  const call = liveCallOf(changes);
  call.tally.hasContent = true;
  call.tally.usage = { inputTokens: 100n, outputTokens };
  call.tally.modelServed = "m-2026-11";
  return call;
}

function recordOf(settling: SettlementDeps, rid: string): UsageRecorded {
  const bytes = settling.spool.read(new Set([rid])).get(rid);
  assert.ok(bytes, "the spool has the record");
  return decode(bytes);
}

test("the record is in the spool before any other home hears of it", () => {
  const steps: string[] = [];
  const quota = scriptedQuota(({ case: name }) => (steps.push(`tell ${name}`), {}));
  const spool = memorySpool({ append: () => void steps.push("spool") });
  settle(settlingOf({ quota, spool, publish: () => void steps.push("publish") }), servedCall(), EndCause.COMPLETE);
  assert.equal(steps[0], "spool");
  assert.deepEqual(steps.slice(1).toSorted(), ["publish", "tell settle"]);
});

test("all homes get the same bytes, and auth-quota the charge that stands in them", () => {
  const published: Uint8Array[] = [];
  const quota = scriptedQuota();
  const spool = memorySpool();
  const call = servedCall();
  settle(settlingOf({ quota, spool, publish: (bytes) => void published.push(bytes) }), call, EndCause.COMPLETE);
  const bytes = spool.records.get(call.rid);
  assert.ok(bytes);
  assert.deepEqual(published, [bytes]);
  const [told] = quota.of("settle");
  assert.ok(told);
  assert.deepEqual(told.record, bytes);
  assert.equal(told.costNanos, decode(bytes).costNanos);
  assert.deepEqual([told.rid, told.accountId, told.keyId], [call.rid, "acct_1", "key_1"]);
});

test("the record says what was used, at which prices, what it cost and how it ended", () => {
  const settling = settlingOf();
  const call = servedCall(50n, { startedAtMs: 1_000, firstByteAtMs: 2_000 });
  settle(settling, call, EndCause.CLIENT_GONE);
  const record = recordOf(settling, call.rid);
  assert.equal(record.kind, RecordKind.FINAL);
  assert.equal(record.endpoint, "/v1/chat/completions");
  assert.deepEqual([record.modelRequested, record.modelServed, record.upstream], ["m", "m-2026-11", "somewhere"]);
  assert.deepEqual([record.usage?.inputTokens, record.usage?.outputTokens], [100n, 50n]);
  assert.deepEqual(record.unitPriceNanos?.outputTokens, 2_000_000_000n);
  assert.equal(record.priceVersion, "v1");
  assert.equal(record.costNanos, 100n * 1_000n + 50n * 2_000n);
  assert.equal(record.heldNanos, 1_000_000_000n);
  assert.equal(record.endCause, EndCause.CLIENT_GONE);
  assert.equal(record.usageSource, UsageSource.PROVIDER);
  assert.equal(record.startedAt && timestampMs(record.startedAt), 1_000);
  assert.equal(record.firstByteAt && timestampMs(record.firstByteAt), 2_000);
  assert.deepEqual([record.httpStatus, record.streamed], [200, true]);
  assert.deepEqual([record.relaySession, record.sequence], ["session-1", 0n]);
  assert.equal(call.chargedNanos, record.costNanos);
  assert.equal(ridOfRecord(settling.spool.read(new Set([call.rid])).get(call.rid) ?? new Uint8Array()), call.rid);
});

test("a call is charged once, for the first end that it is told of", () => {
  const quota = scriptedQuota();
  const settling = settlingOf({ quota });
  const call = servedCall();
  settle(settling, call, EndCause.COMPLETE);
  call.tally.usage = { outputTokens: 1_000_000n };
  settle(settling, call, EndCause.CLIENT_GONE);
  release(settling, call);
  assert.equal(quota.operations.length, 1);
  assert.equal(call.endCause, EndCause.COMPLETE);
  assert.equal(recordOf(settling, call.rid).endCause, EndCause.COMPLETE);
});

test("records are numbered without a hole from 0", () => {
  const settling = settlingOf();
  const calls = [servedCall(), servedCall(), servedCall()];
  for (const call of calls) settle(settling, call, EndCause.COMPLETE);
  assert.deepEqual(
    calls.map(({ rid }) => recordOf(settling, rid).sequence),
    [0n, 1n, 2n],
  );
});

test("every call that an upstream was asked for leaves a record, one that served nothing a record of nothing", () => {
  const settling = settlingOf();
  const call = liveCallOf({ httpStatus: 500 });
  settle(settling, call, EndCause.UPSTREAM_ERROR);
  const record = recordOf(settling, call.rid);
  assert.equal(record.costNanos, 0n);
  assert.equal(record.usageSource, UsageSource.NONE);
  assert.equal(record.modelServed, "m-upstream", "the name sent to the provider when it did not say");
});

test("a model priced by the request is charged for it, unless nothing was served", () => {
  const settling = settlingOf();
  const model = modelOf({ prices: { inputTokens: 1n, outputTokens: 1n, requests: 5_000_000_000n } });
  const served = servedCall(0n, { model });
  settle(settling, served, EndCause.COMPLETE);
  assert.equal(recordOf(settling, served.rid).usage?.requests, 1n);
  assert.equal(recordOf(settling, served.rid).costNanos, 5_001n);
  const failed = liveCallOf({ model });
  settle(settling, failed, EndCause.UPSTREAM_ERROR);
  assert.equal(recordOf(settling, failed.rid).costNanos, 0n);
  const unpriced = servedCall();
  settle(settling, unpriced, EndCause.COMPLETE);
  assert.equal(recordOf(settling, unpriced.rid).usage?.requests, 0n);
});

test("a record stays small whatever an upstream calls its model: auth-quota takes no more than 64 KiB", () => {
  const settling = settlingOf();
  const call = servedCall();
  call.tally.modelServed = "m".repeat(100_000);
  settle(settling, call, EndCause.COMPLETE);
  assert.equal(recordOf(settling, call.rid).modelServed, "m".repeat(200));
});

test("a charge above its hold is counted", async () => {
  const settling = settlingOf();
  settle(settling, servedCall(50n, { heldNanos: 200_000n }), EndCause.COMPLETE);
  assert.equal(await valueOf(settling.metrics.overHold), 0);
  settle(settling, servedCall(50n, { heldNanos: 199_999n }), EndCause.COMPLETE);
  assert.equal(await valueOf(settling.metrics.overHold), 1);
  assert.equal(await valueOf(settling.metrics.charged), 400_000);
});

test("a call that no upstream was asked to serve is released, once, without a record", () => {
  const quota = scriptedQuota();
  const spool = memorySpool();
  const settling = settlingOf({ quota, spool });
  const call = liveCallOf({ upstream: "" });
  release(settling, call);
  release(settling, call);
  settle(settling, call, EndCause.COMPLETE);
  assert.deepEqual(
    quota.of("release").map(({ rid }) => rid),
    [call.rid],
  );
  assert.equal(spool.records.size, 0);
});

/** Settles one call, then asks what became of it and hears `state`. */
async function confirmAs(state: CallState, verdict: Verdict = Verdict.OK) {
  const published: Uint8Array[] = [];
  const quota = scriptedQuota(({ case: name }) => (name === "lookup" ? { state, verdict } : {}));
  const spool = memorySpool();
  const settling = settlingOf({ quota, spool, publish: (bytes) => void published.push(bytes) });
  const call = servedCall();
  settle(settling, call, EndCause.COMPLETE);
  const [first] = published;
  await confirmBooked(settling);
  assert.deepEqual(
    quota.of("lookup").map(({ rid }) => rid),
    [call.rid],
  );
  for (const again of published) assert.deepEqual(again, first, "told again is the same bytes");
  return {
    isKept: spool.records.has(call.rid),
    tellsAgain: quota.of("settle").length - 1,
    published: published.length - 1,
  };
}

const confirmRows: [keyof typeof CallState, string, object][] = [
  ["POSTED", "booked: the spool lets go", { isKept: false, tellsAgain: 0, published: 0 }],
  ["SETTLED", "charged, not booked: wait on", { isKept: true, tellsAgain: 0, published: 0 }],
  ["UNSPECIFIED", "unknown: a store lost it, told again", { isKept: true, tellsAgain: 1, published: 1 }],
  ["HELD", "still held: told again", { isKept: true, tellsAgain: 1, published: 1 }],
  ["EXPIRED", "charged at a checkpoint only: told again", { isKept: true, tellsAgain: 1, published: 1 }],
];

for (const [state, what, expected] of confirmRows) {
  test(`what became of a record in the spool: ${state}, ${what}`, async () => {
    assert.deepEqual(await confirmAs(CallState[state]), expected);
  });
}

test("no answer about a record changes nothing", async () => {
  const unchanged = { isKept: true, tellsAgain: 0, published: 0 };
  assert.deepEqual(await confirmAs(CallState.UNSPECIFIED, Verdict.UNAVAILABLE), unchanged);
  assert.deepEqual(await confirmAs(CallState.POSTED, Verdict.UNAVAILABLE), unchanged);
});

/** What two dead relays left behind. */
function leftBehind() {
  const dead = settlingOf();
  const calls = [servedCall(1n), servedCall(2n), servedCall(3n)];
  for (const call of calls) settle(dead, call, EndCause.COMPLETE);
  const [first, second, third] = calls.map(({ rid }) => rid);
  const bytesOf = (rid: string | undefined): Uint8Array =>
    dead.spool.read(new Set([rid ?? ""])).get(rid ?? "") as Uint8Array;
  const adopted = new Map([
    ["dead-1", { records: [bytesOf(first), bytesOf(second)], checkpoints: [] }],
    ["dead-2", { records: [bytesOf(third)], checkpoints: [] }],
    ["dead-3", { records: [], checkpoints: [] }],
  ]);
  const records = [first, second, third].map(bytesOf);
  return { spool: memorySpool({ adopt: () => adopted }), rids: calls.map(({ rid }) => rid), records };
}

test("replay tells every settle of a dead relay and waits for the answers before it declares that relay dead", async () => {
  const { spool, rids, records } = leftBehind();
  const answers = new Map(rids.map((rid) => [rid, Promise.withResolvers<object>()]));
  const steps: string[] = [];
  const published: Uint8Array[] = [];
  const quota = scriptedQuota((operation) => {
    if (operation.case === "endSession") steps.push(`end ${operation.value.relaySession}`);
    if (operation.case !== "settle") return {};
    steps.push(operation.value.rid);
    return answers.get(operation.value.rid)?.promise ?? {};
  });
  const replayed = replaySpool(settlingOf({ quota, spool, publish: (bytes) => void published.push(bytes) }));
  const [first = "", second = "", third = ""] = rids;
  answers.get(second)?.resolve({});
  await new Promise(setImmediate);
  assert.deepEqual(steps, [first, second], "one settle is unanswered: its relay is not declared dead");
  answers.get(first)?.resolve({});
  await new Promise(setImmediate);
  assert.deepEqual(steps, [first, second, "end dead-1", third]);
  answers.get(third)?.resolve({});
  await replayed;
  assert.deepEqual(steps, [first, second, "end dead-1", third, "end dead-2", "end dead-3"]);
  assert.deepEqual(published, records);
});

test("replay tells each charge as the dead relay recorded it", async () => {
  const { spool, rids } = leftBehind();
  const quota = scriptedQuota();
  await replaySpool(settlingOf({ quota, spool }));
  const told = quota.of("settle");
  assert.deepEqual(
    told.map(({ rid }) => rid),
    rids,
  );
  for (const { record, costNanos, accountId, keyId } of told) {
    const { costNanos: recorded } = decode(record);
    assert.deepEqual([costNanos, accountId, keyId], [recorded, "acct_1", "key_1"]);
  }
});

test("a conflict found on replay is an alarm too, and the replay goes on", async () => {
  const { spool } = leftBehind();
  const quota = scriptedQuota(({ case: name }) => (name === "settle" ? { verdict: Verdict.CONFLICT } : {}));
  const settling = settlingOf({ quota, spool });
  await replaySpool(settling);
  assert.equal(await valueOf(settling.metrics.conflicts), 3);
  assert.equal(quota.of("endSession").length, 3);
});

test("what is not a record has no rid", () => {
  assert.throws(() => ridOfRecord(Buffer.from(`${createRid()} is no record`)));
});

test("counts that do not add up to the provider's own total are charged as they are, counted and logged", async () => {
  const { log, lines } = listeningLog();
  const settling = { ...settlingOf({ quota: scriptedQuota() }), log };
  const odd = servedCall();
  odd.tally.toldTokens = 999n;
  const right = servedCall();
  right.tally.toldTokens = 150n;
  settle(settling, odd, EndCause.COMPLETE);
  settle(settling, right, EndCause.COMPLETE);
  assert.equal(recordOf(settling, odd.rid).costNanos, recordOf(settling, right.rid).costNanos);
  assert.equal(await valueOf(settling.metrics.usageMismatches), 1);
  const [line, ...others] = lines.filter(({ level }) => level === "warn");
  assert.deepEqual([line?.["rid"], line?.["sum"], line?.["told"]], [odd.rid, "150", "999"]);
  assert.equal(others.length, 0);
});

test("trap 32 (price by the service tier named in the response, and by whole-request context tier): not by what was asked", () => {
  const prices = (usdPerMillion: bigint) => ({ inputTokens: usdPerMillion, outputTokens: usdPerMillion });
  const dear = modelOf({ prices: prices(2_000_000_000n) });
  const long = modelOf({ prices: prices(3_000_000_000n) });
  const offered = modelOf({
    prices: prices(1_000_000_000n),
    variants: [
      { where: { service_tier: "priority" }, aboveInputTokens: -1, model: dear },
      { where: {}, aboveInputTokens: 99, model: long },
    ],
  });
  const asked = { inputTokens: 100, units: {}, priceFields: { service_tier: "priority" } };
  const chargeOf = (changes: Parameters<typeof servedCall>[1], tier?: string, usage = { inputTokens: 9n }): bigint => {
    const settling = settlingOf();
    const call = servedCall(0n, { offered, model: dear, requested: asked, ...changes });
    call.tally.serviceTier = tier;
    call.tally.usage = { ...usage, outputTokens: 1n };
    settle(settling, call, EndCause.COMPLETE);
    const { unitPriceNanos, costNanos } = recordOf(settling, call.rid);
    assert.equal(costNanos, ((usage.inputTokens + 1n) * (unitPriceNanos?.inputTokens ?? 0n)) / 1_000_000n);
    return unitPriceNanos?.inputTokens ?? 0n;
  };
  assert.equal(chargeOf({}, "priority"), 2_000_000_000n);
  assert.equal(chargeOf({}, "default"), 1_000_000_000n, "asked for, not served");
  assert.equal(chargeOf({}), 1_000_000_000n, "a format that knows no tiers");
  assert.equal(chargeOf({}, "default", { inputTokens: 99n }), 1_000_000_000n, "not above");
  assert.equal(chargeOf({}, "default", { inputTokens: 100n }), 3_000_000_000n);
});

/**
 * Replays a spool in which a dead relay left a checkpoint only; `state` is what auth-quota knows of the call, and
 * `newerNanos` by how much its own checkpoint is above that one.
 */
async function replayCheckpoint(state: CallState, newerNanos = 0n) {
  const call = servedCall();
  const checkpoint = checkpointRecord(call);
  const adopted = new Map([["dead", { records: [], checkpoints: [checkpoint.record] }]]);
  const quota = scriptedQuota((operation) => {
    if (operation.case === "lookup") return { state };
    if (operation.case !== "checkpoint") return {};
    const verdict = state === CallState.HELD ? Verdict.OK : Verdict.NO_HOLD;
    return { verdict, checkpointNanos: operation.value.costNanos + newerNanos };
  });
  const spool = memorySpool({ adopt: () => adopted });
  const published: Uint8Array[] = [];
  const settling = settlingOf({ quota, spool, publish: (bytes) => void published.push(bytes) });
  await replaySpool(settling);
  assert.deepEqual(
    quota.of("endSession").map(({ relaySession }) => relaySession),
    ["dead"],
  );
  return { call, checkpoint, spool, told: quota.of("settle"), published };
}

for (const state of ["HELD", "EXPIRED", "UNSPECIFIED", "RELEASED"] as const) {
  test(`a call that its relay was killed in (${state} at auth-quota) is charged at the checkpoint in the spool, for good`, async () => {
    const { call, checkpoint, spool, told, published } = await replayCheckpoint(CallState[state]);
    assert.deepEqual(
      told.map(({ rid, costNanos }) => [rid, costNanos]),
      [[call.rid, checkpoint.costNanos]],
    );
    const record = decode(told[0]?.record ?? new Uint8Array());
    assert.deepEqual(
      [record.kind, record.endCause, record.relaySession, record.sequence],
      [RecordKind.FINAL, EndCause.RELAY_LOST, "session-1", 0n],
    );
    assert.deepEqual(spool.records.get(call.rid), told[0]?.record, "written down before it is told");
    assert.deepEqual(published, [told[0]?.record]);
  });
}

test("a checkpoint that is older than auth-quota's, because the disk was full, leaves the charge to that one", async () => {
  for (const state of [CallState.HELD, CallState.EXPIRED]) {
    const { spool, told, published } = await replayCheckpoint(state, 1n);
    assert.deepEqual([told, published, spool.records.size], [[], [], 0]);
  }
});

test("a checkpoint from long before the last word of its relay is let go when auth-quota knows nothing of the call", async () => {
  const [old, late] = [servedCall(), servedCall()];
  const written = (call: ReturnType<typeof servedCall>, endedAtMs: number): Uint8Array => {
    const record = decode(checkpointRecord(call).record);
    return toBinary(UsageRecordedSchema, { ...record, endedAt: timestampFromMs(endedAtMs) });
  };
  const checkpoints = [written(old, 1_000_000), written(late, 1_004_001)];
  const confirmed: string[] = [];
  const adopt = () => new Map([["dead", { records: [], checkpoints }]]);
  const spool = memorySpool({ adopt, confirm: (rid) => void confirmed.push(rid) });
  const quota = scriptedQuota(({ case: name }) => (name === "checkpoint" ? { verdict: Verdict.NO_HOLD } : {}));
  await replaySpool(settlingOf({ quota, spool }));
  assert.deepEqual(
    quota.of("settle").map(({ rid }) => rid),
    [late.rid],
  );
  assert.deepEqual(confirmed, [old.rid]);
  // A relay that was stopped for a while, and killed when it went on, still served what is held.
  const held = scriptedQuota(({ case: name }) => (name === "checkpoint" ? { checkpointNanos: 1n } : {}));
  await replaySpool(settlingOf({ quota: held, spool: memorySpool({ adopt }) }));
  assert.equal(held.of("settle").length, 2);
});

test("a relay that stood still writes its running calls down again before the next record", async () => {
  const [running, ended] = [servedCall(50n, { spooledAtMs: -Infinity }), servedCall()];
  const order: string[] = [];
  const spool = memorySpool({
    checkpoint: (rid) => void order.push(`checkpoint ${rid}`),
    append: (rid) => void order.push(`record ${rid}`),
  });
  const settling = settlingOf({ spool });
  settling.watch.look = () => guardLive(settling, [running]);
  settling.watch.lookedAtMs = Date.now() - 3_000;
  settle(settling, ended, EndCause.COMPLETE);
  settle(settling, servedCall(), EndCause.COMPLETE);
  assert.deepEqual(order.slice(0, 2), [`checkpoint ${running.rid}`, `record ${ended.rid}`]);
  assert.equal(order.length, 3, "the second record comes right behind the first");
});

test("the clock that a video's record was written by says nothing of when its relay had its last word", async () => {
  const call = servedCall();
  const { record } = checkpointRecord(call);
  const aheadMs = Date.now() + 60_000;
  const fields = { rid: createRid(), kind: RecordKind.FINAL, endedAt: timestampFromMs(aheadMs), httpStatus: 200 };
  const records = [toBinary(UsageRecordedSchema, create(UsageRecordedSchema, fields))];
  const spool = memorySpool({ adopt: () => new Map([["dead", { records, checkpoints: [record] }]]) });
  const quota = scriptedQuota(({ case: name }) => (name === "checkpoint" ? { verdict: Verdict.NO_HOLD } : {}));
  await replaySpool(settlingOf({ quota, spool }));
  assert.deepEqual(
    quota.of("settle").map(({ rid }) => rid),
    [fields.rid, call.rid],
  );
});

for (const state of ["SETTLED", "POSTED"] as const) {
  test(`a call whose charge had been told of (${state}) is not charged at its checkpoint again`, async () => {
    const { spool, told, published } = await replayCheckpoint(CallState[state]);
    assert.deepEqual([told, published, spool.records.size], [[], [], 0]);
  });
}
