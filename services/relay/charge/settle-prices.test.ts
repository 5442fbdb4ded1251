import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { EndCause, UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import type { Units } from "#shared/money/pricing.ts";
import type { Quirk } from "../dialects/conversation.ts";
import { checkpointRecord, settle, type SettlementDeps } from "./settle.ts";
import { liveCallOf, listeningLog, modelOf, settlingOf, upstreamOf } from "../testing/fakes.ts";

/** A call of which 100 input tokens and `outputTokens` have been served, by the provider's count. */
function servedCall(outputTokens = 50n, changes: Parameters<typeof liveCallOf>[0] = {}) {
  const call = liveCallOf(changes);
  call.tally.hasContent = true;
  call.tally.usage = { inputTokens: 100n, outputTokens };
  return call;
}

function recordOf(settling: SettlementDeps, rid: string): UsageRecorded {
  const bytes = settling.spool.read(new Set([rid])).get(rid);
  assert.ok(bytes, "the spool has the record");
  return fromBinary(UsageRecordedSchema, bytes);
}

const valueOf = async (metric: { get: () => Promise<{ values: { value: number }[] }> }): Promise<number> =>
  (await metric.get()).values[0]?.value ?? 0;

const routeOf = (name: string, model: string, inputTokens?: bigint) => ({
  upstream: upstreamOf({ name }),
  model,
  priority: 0,
  weight: 0,
  ...(inputTokens !== undefined && { cost: { prices: { inputTokens, outputTokens: inputTokens }, variants: [] } }),
});

test("the record says what the call cost the operator on the route that served it, where the catalog says that", () => {
  const settling = settlingOf();
  const routes = [routeOf("dear", "m", 900_000n), routeOf("fair", "m", 300_000n), routeOf("fair", "n", 400_000n)];
  const model = modelOf({ routes: [...routes, routeOf("own", "m")] });
  const costOn = (upstream: string, upstreamModel: string): bigint | undefined => {
    const call = servedCall(50n, { model, upstream, upstreamModel });
    settle(settling, call, EndCause.COMPLETE);
    return recordOf(settling, call.rid).upstreamCostNanos;
  };
  assert.deepEqual([costOn("dear", "m"), costOn("fair", "m"), costOn("fair", "n")], [135n, 45n, 60n]);
  assert.equal(costOn("own", "m"), undefined);
  const running = servedCall(50n, { model, upstream: "fair", upstreamModel: "n" });
  const { record } = checkpointRecord(running);
  assert.equal(fromBinary(UsageRecordedSchema, record).upstreamCostNanos, 60n, "a checkpoint says it too");
});

test("what a call costs the operator goes by the tier that served it, and in units of which the charge does not speak", () => {
  const settling = settlingOf();
  const priority = { where: { service_tier: "priority" }, aboveInputTokens: -1, name: "priority" };
  const cost = {
    prices: { outputTokens: 1_000_000n, toolCalls: 5_000_000n },
    variants: [{ ...priority, prices: { outputTokens: 2_000_000n, toolCalls: 5_000_000n } }],
  };
  const model = modelOf({ routes: [{ ...routeOf("somewhere", "m-upstream"), cost }] });
  const call = servedCall(50n, { model });
  call.tally.counted = { toolCalls: 2n };
  call.tally.serviceTier = "priority";
  settle(settling, call, EndCause.COMPLETE);
  assert.equal(recordOf(settling, call.rid).upstreamCostNanos, 50n * 2n + 2n * 5n);
  assert.equal(recordOf(settling, call.rid).usage?.toolCalls, 0n);
});

test("units that no price speaks of are an alarm when the call is charged, not when nothing was served", async () => {
  const { log, lines } = listeningLog();
  const settling = settlingOf({ log });
  const call = servedCall();
  call.tally.counted = { toolCalls: 3n };
  settle(settling, call, EndCause.COMPLETE);
  assert.equal(await valueOf(settling.metrics.unpricedUnits), 3);
  assert.deepEqual(
    lines.map(({ level, rid, unpriced }) => [level, rid, unpriced]),
    [["error", call.rid, { toolCalls: "3" }]],
  );
  const failed = liveCallOf();
  failed.tally.inputUsage = { inputTokens: 9n, toolCalls: 1n };
  settle(settling, failed, EndCause.UPSTREAM_ERROR);
  settle(settling, servedCall(), EndCause.COMPLETE);
  assert.equal(await valueOf(settling.metrics.unpricedUnits), 3);
  assert.equal(await valueOf(settling.metrics.freeCalls), 0);
});

test("a variant's version stands in the record beside its prices: together they name one price row", () => {
  const settling = settlingOf();
  const prices = { inputTokens: 5_000_000n, outputTokens: 5_000_000n };
  const row = modelOf({ prices, priceVersion: "v1+priority" });
  const offered = modelOf({
    variants: [{ where: { service_tier: "priority" }, aboveInputTokens: -1, model: row }],
  });
  const call = servedCall(50n, { offered, model: offered });
  call.tally.serviceTier = "priority";
  settle(settling, call, EndCause.COMPLETE);
  const { priceVersion, unitPriceNanos, costNanos } = recordOf(settling, call.rid);
  assert.deepEqual([priceVersion, unitPriceNanos?.inputTokens, costNanos], ["v1+priority", 5_000_000n, 750n]);
});

test("a fee for a request goes by how much its provider says it searched", () => {
  const settling = settlingOf();
  const prices = { inputTokens: 1_000_000n, outputTokens: 1_000_000n, requests: 12_000_000_000_000n };
  const low = modelOf({ prices: { ...prices, requests: 5_000_000_000_000n }, priceVersion: "v1+low" });
  const where = { search_context_size: "low" };
  const offered = modelOf({ prices, variants: [{ where, aboveInputTokens: -1, model: low }] });
  for (const [size, fee] of [
    ["low", 5_000_000n],
    ["high", 12_000_000n],
    [undefined, 12_000_000n],
  ] as const) {
    const call = servedCall(50n, { offered, model: offered });
    call.tally.priceFields = size === undefined ? undefined : { search_context_size: size };
    settle(settling, call, EndCause.COMPLETE);
    assert.equal(recordOf(settling, call.rid).costNanos, fee + 150n);
  }
});

/** What was charged for a whole answer of 50 tokens of text, and how often its counts were called impossible. */
async function wholeWith(usage: Units, quirks: Quirk[] = []) {
  const settling = settlingOf();
  const model = modelOf({ quirks: new Set(quirks) });
  const call = liveCallOf({ model, offered: model });
  Object.assign(call.tally, { hasContent: true, hasFinish: true, isComplete: true, contentTokens: 50, usage });
  settle(settling, call, EndCause.COMPLETE);
  const { values } = await settling.metrics.usageMismatches.get();
  return { nanos: call.chargedNanos, alarms: values[0]?.value ?? 0 };
}

test("0 output that is told of a whole answer with text is charged as told, and an alarm", async () => {
  assert.deepEqual(await wholeWith({ inputTokens: 100n, outputTokens: 0n }), { nanos: 100_000n, alarms: 1 });
  assert.deepEqual(await wholeWith({ inputTokens: 0n, outputTokens: 0n }), { nanos: 0n, alarms: 1 });
  assert.deepEqual(await wholeWith({ inputTokens: 100n, outputTokens: 1n }), { nanos: 102_000n, alarms: 0 });
});

test("of a provider that is known to tell too few tokens, the larger of its counts and of what was sent is charged", async () => {
  const quirk: Quirk[] = ["untrusted-counts"];
  assert.equal((await wholeWith({ inputTokens: 100n, outputTokens: 0n }, quirk)).nanos, 100_000n + 50n * 2_000n);
  assert.equal((await wholeWith({ inputTokens: 0n, outputTokens: 0n }, quirk)).nanos, 100_000n + 50n * 2_000n);
  assert.equal((await wholeWith({ inputTokens: 100n, outputTokens: 70n }, quirk)).nanos, 100_000n + 70n * 2_000n);
});
