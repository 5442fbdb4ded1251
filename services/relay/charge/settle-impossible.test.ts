import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CallState, Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import {
  EndCause,
  RecordKind,
  UsageRecordedSchema,
  UsageSource,
  type UsageRecorded,
} from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import { noCounts } from "../dialects/dialect.ts";
import { guardStream } from "../stream/guard.ts";
import { replaySpool } from "./replay-spool.ts";
import { checkpointRecord, confirmBooked, settle, type SettlementDeps } from "./settle.ts";
import { liveCallOf, listeningLog, memorySpool, scriptedQuota, settlingOf } from "../testing/fakes.ts";

// Charges that cannot be booked as they are: no loop, no free answer, no hold that stays.

const decode = (bytes: Uint8Array): UsageRecorded => fromBinary(UsageRecordedSchema, bytes);
const valueOf = async (metric: { get: () => Promise<{ values: { value: number }[] }> }): Promise<number> =>
  (await metric.get()).values[0]?.value ?? 0;

/** A call of which 100 input and 50 output tokens have been served, by the provider's count. */
function servedCall() {
  const call = liveCallOf();
  call.tally.hasContent = true;
  call.tally.usage = { inputTokens: 100n, outputTokens: 50n };
  return call;
}

function recordOf(settling: SettlementDeps, rid: string): UsageRecorded {
  const bytes = settling.spool.read(new Set([rid])).get(rid);
  assert.ok(bytes, "the spool has the record");
  return decode(bytes);
}

test("a charge that auth-quota refuses is told once and left to billing: one alarm, no loop, and the spool lets go", async () => {
  const { log, lines } = listeningLog();
  const quota = scriptedQuota(({ case: name }) =>
    name === "lookup" ? { state: CallState.HELD } : { verdict: Verdict.CONFLICT },
  );
  const spool = memorySpool({ postpone: () => undefined });
  const stored = Promise.withResolvers<boolean>();
  const alone: Uint8Array[] = [];
  const publishAlone = (record: Uint8Array) => (alone.push(record), stored.promise);
  const settling = settlingOf({ quota, spool, publishAlone, log });
  const call = servedCall();
  settle(settling, call, EndCause.COMPLETE);
  for (let look = 0; look < 5; look += 1) await confirmBooked(settling);
  assert.equal(quota.of("settle").length, 1);
  assert.deepEqual(alone, [spool.records.get(call.rid)], "kept until JetStream has it");
  assert.equal(await valueOf(settling.metrics.conflicts), 1);
  assert.deepEqual(
    lines.map(({ level, rid }) => [level, rid]),
    [["error", call.rid]],
  );
  stored.resolve(true);
  await new Promise(setImmediate);
  assert.equal(spool.records.size, 0);
});

test("a refused charge that JetStream has not got yet stays in the spool for the next start", async () => {
  const quota = scriptedQuota(() => ({ verdict: Verdict.CONFLICT }));
  const spool = memorySpool();
  const settling = settlingOf({ quota, spool, publishAlone: async () => false });
  const call = servedCall();
  settle(settling, call, EndCause.COMPLETE);
  await new Promise(setImmediate);
  assert.ok(spool.records.has(call.rid));
});

const absurd = 9_000_000_000_000_000n;

test("counts that cannot be are charged at what the model can take, told once, and kept on the record", async () => {
  const { log, lines } = listeningLog();
  const quota = scriptedQuota();
  const settling = settlingOf({ quota, log });
  const call = servedCall();
  call.tally.usage = { inputTokens: absurd, outputTokens: absurd, reasoningTokens: 30n };
  call.tally.toldTokens = 2n * absurd + 30n;
  settle(settling, call, EndCause.COMPLETE);
  const { usage, toldUsage, costNanos, usageSource } = recordOf(settling, call.rid);
  assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.reasoningTokens], [100_000n, 9_970n, 30n]);
  assert.equal(costNanos, 100_000n * 1_000n + 10_000n * 2_000n);
  assert.deepEqual([toldUsage?.inputTokens, toldUsage?.outputTokens], [absurd, absurd]);
  assert.equal(usageSource, UsageSource.PROVIDER);
  assert.equal(quota.of("settle")[0]?.costNanos, costNanos);
  assert.equal(await valueOf(settling.metrics.impossibleUsage), 1);
  assert.equal(lines.length, 1);
});

test("an input that cannot be, told while the answer runs, neither cuts it nor spoils its checkpoints", () => {
  const settling = settlingOf();
  const call = liveCallOf({ heldNanos: 200_000_000n });
  call.tally.hasContent = true;
  call.tally.inputUsage = { inputTokens: absurd };
  let isCut = false;
  call.cut = () => void (isCut = true);
  guardStream(settling, call);
  const { costNanos, record } = checkpointRecord(call);
  assert.equal(isCut, false);
  assert.equal(costNanos, 100_000n * 1_000n, "the model's context");
  assert.equal(decode(record).costNanos, costNanos);
  settle(settling, call, EndCause.CLIENT_GONE);
  assert.equal(recordOf(settling, call.rid).toldUsage?.inputTokens, absurd);
});

test("counts that are none are as if they had not been told: counted, flagged as estimated and told to the operator", async () => {
  const settling = settlingOf();
  const call = servedCall();
  call.tally.contentTokens = 7;
  call.tally.usage = noCounts;
  settle(settling, call, EndCause.COMPLETE);
  const { usage, usageSource, toldUsage } = recordOf(settling, call.rid);
  assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usageSource], [100n, 7n, UsageSource.ESTIMATED]);
  assert.equal(toldUsage, undefined);
  assert.equal(await valueOf(settling.metrics.impossibleUsage), 1);
});

test("a record of an earlier version whose cost went round an int64 is charged at what was held, the same at each start", async () => {
  const prices = { inputTokens: 1_250_000_000n, outputTokens: 10_000_000_000n };
  const usage = { inputTokens: absurd, outputTokens: absurd };
  const costNanos = BigInt.asIntN(64, (absurd * 11_250_000_000n) / 1_000_000n);
  const old = { rid: createRid(), kind: RecordKind.FINAL, accountId: "acct_1", keyId: "key_1", usage, costNanos };
  const bytes = toBinary(
    UsageRecordedSchema,
    create(UsageRecordedSchema, { ...old, unitPriceNanos: prices, heldNanos: 1_000_000n, relaySession: "dead" }),
  );
  const started = async () => {
    const quota = scriptedQuota();
    const spool = memorySpool({ adopt: () => new Map([["dead", { records: [bytes], checkpoints: [] }]]) });
    const { log, lines } = listeningLog();
    await replaySpool(settlingOf({ quota, spool, log }));
    const errors = lines.filter(({ level }) => level === "error").length;
    return { told: quota.of("settle")[0], errors };
  };
  const { told, errors } = await started();
  assert.ok(told);
  const record = decode(told.record);
  assert.equal(told.costNanos, record.costNanos);
  assert.ok(record.costNanos > 900_000n && record.costNanos <= 1_000_000n, String(record.costNanos));
  assert.deepEqual([record.toldUsage?.inputTokens, record.rid], [absurd, old.rid]);
  assert.equal(errors, 1);
  assert.deepEqual((await started()).told, told);
});
