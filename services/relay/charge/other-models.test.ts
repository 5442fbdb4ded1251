import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { EndCause, UsageRecordedSchema, UsageSource, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { costNanos } from "#shared/money/pricing.ts";
import type { Model } from "../catalog/models.ts";
import type { ModelPart } from "../dialects/dialect.ts";
import { CallFailure } from "../failures.ts";
import { refuseFallbacks } from "./other-models.ts";
import { settle, type SettlementDeps } from "./settle.ts";
import { listeningLog, liveCallOf, modelOf, settlingOf, upstreamOf } from "../testing/fakes.ts";

const routeTo = (model: string, name = "somewhere", cost?: bigint) => ({
  upstream: upstreamOf({ name }),
  model,
  priority: 0,
  weight: 0,
  ...(cost !== undefined && { cost: { prices: { inputTokens: cost, outputTokens: cost }, variants: [] } }),
});

const called = modelOf({
  id: "sonnet",
  routes: [routeTo("claude-sonnet")],
  prices: { ...modelOf().prices, cacheReadTokens: 100_000_000n },
});
// 5 and 25 USD per million tokens, 1.25 from a cache.
const adviser = modelOf({
  id: "opus",
  priceVersion: "o1",
  routes: [routeTo("claude-opus", "elsewhere"), routeTo("claude-opus")],
  prices: { inputTokens: 5_000_000_000n, cacheReadTokens: 1_250_000_000n, outputTokens: 25_000_000_000n },
});
const catalog = (...models: Model[]) => new Map(models.map((model) => [model.id, model]));

const own = { inputTokens: 1_000n, outputTokens: 30n, reasoningTokens: 0n };
const advice = { inputTokens: 4_000n, cacheReadTokens: 400n, outputTokens: 70n };
const whole = { inputTokens: 5_000n, cacheReadTokens: 400n, outputTokens: 100n, reasoningTokens: 0n };

function chargeOf(byModel: ModelPart[], changes: Parameters<typeof liveCallOf>[0] = {}, settling = settlingOf()) {
  const models = catalog(called, adviser);
  const call = liveCallOf({ model: called, offered: called, upstreamModel: "claude-sonnet", models, ...changes });
  call.tally.hasContent = true;
  call.tally.usage = whole;
  call.tally.byModel = byModel;
  settle(settling, call, EndCause.COMPLETE);
  return recordOf(settling, call.rid);
}

function recordOf(settling: SettlementDeps, rid: string): UsageRecorded {
  const bytes = settling.spool.read(new Set([rid])).get(rid);
  assert.ok(bytes);
  const record = fromBinary(UsageRecordedSchema, bytes);
  assert.ok(record.usage && record.unitPriceNanos);
  assert.equal(record.costNanos, costNanos(record.usage, record.unitPriceNanos), "the published formula holds");
  return record;
}

test("a request may fall back to models that its key may use, and that have prices at the same upstream", () => {
  const unpriced = modelOf({ id: "drawing", routes: [routeTo("claude-draw")], prices: { images: 1n } });
  const models = catalog(called, adviser, unpriced);
  const refusalOf = (names: string[], allowed: string[] = []): string | undefined => {
    try {
      refuseFallbacks(names, { offered: called, routes: called.routes, models, allowed });
      return undefined;
    } catch (error) {
      assert.ok(error instanceof CallFailure);
      return `${error.failure.name}: ${error.failure.detail}`;
    }
  };
  assert.equal(refusalOf([]), undefined);
  assert.equal(refusalOf(["claude-opus-20260101", "claude-sonnet"]), undefined);
  assert.equal(refusalOf(["claude-opus"], ["sonnet", "opus"]), undefined);
  assert.equal(refusalOf(["claude-sonnet"], ["sonnet"]), undefined);
  assert.equal(refusalOf(["claude-opus"], ["sonnet"]), "model_unavailable: claude-opus");
  for (const name of ["claude-unknown", "claude-draw", ""]) {
    assert.match(refusalOf([name]) ?? "", /^field_invalid: the model "[\w-]*" in field fallbacks has no price/, name);
  }
});

test("what another model of the catalog ran costs what that model costs, and the bill tells it", () => {
  const record = chargeOf([
    { model: "claude-sonnet", usage: own },
    { model: "claude-opus", usage: advice },
  ]);
  const ofAdviser = 4_000n * 5_000n + 400n * 1_250n + 70n * 25_000n;
  assert.deepEqual(
    [record.usage?.inputTokens, record.usage?.cacheReadTokens, record.usage?.outputTokens],
    [1_000n, 0n, 30n],
  );
  assert.equal(record.usage?.otherModelsNanos, ofAdviser);
  assert.equal(record.costNanos, 1_000n * 1_000n + 30n * 2_000n + ofAdviser);
  assert.deepEqual([record.priceVersion, record.unitPriceNanos?.otherModelsNanos], ["v1+other-models", 1_000_000n]);
  assert.equal(record.usageSource, UsageSource.PROVIDER);
  const [part, ...others] = record.otherModels;
  assert.deepEqual(others, []);
  assert.deepEqual([part?.model, part?.priceVersion, part?.costNanos], ["opus", "o1", ofAdviser]);
  assert.equal(part?.usage?.inputTokens, 4_000n);
  assert.equal(part?.unitPriceNanos?.outputTokens, 25_000_000_000n);
});

test("a dated name is the model that it is a version of", () => {
  const dated = chargeOf([{ model: "claude-opus-20261101", usage: advice }]);
  assert.deepEqual(
    dated.otherModels.map(({ model }) => model),
    ["opus"],
  );
  const same = chargeOf([{ model: "claude-sonnet-20261101", usage: whole }]);
  assert.deepEqual([same.otherModels, same.usage?.outputTokens, same.priceVersion], [[], 100n, "v1"]);
  const undated = { upstreamModel: "claude-sonnet-20261101" };
  assert.deepEqual(chargeOf([{ model: "claude-sonnet", usage: whole }], undated).otherModels, []);
});

test("a model that the catalog does not have costs as the called one, and the operator is told", async () => {
  const { log, lines } = listeningLog();
  const settling = settlingOf({ log });
  const record = chargeOf([{ model: "claude-unknown", usage: advice }], {}, settling);
  assert.deepEqual([record.otherModels, record.usage?.inputTokens, record.usage?.outputTokens], [[], 5_000n, 100n]);
  assert.equal(record.usage?.otherModelsNanos, 0n);
  assert.deepEqual(
    lines.map(({ level, rid, models }) => [level, rid, models]),
    [["error", record.rid, ["claude-unknown"]]],
  );
  const { values } = await settling.metrics.unpricedModels.get();
  assert.deepEqual(
    values.map(({ labels, value }) => [labels, value]),
    [[{ upstream: "somewhere" }, 1]],
  );
});

test("parts are never more than the whole, and a fallback may have run all of it, its thinking too", () => {
  const thinking = { inputTokens: 10n, outputTokens: 4n, reasoningTokens: 6n };
  const models = catalog(called, adviser);
  const call = liveCallOf({ model: called, offered: called, upstreamModel: "claude-sonnet", models });
  call.tally.hasContent = true;
  call.tally.usage = thinking;
  call.tally.byModel = [{ model: "claude-opus", usage: { inputTokens: 10n, outputTokens: 10n } }];
  const settling = settlingOf();
  settle(settling, call, EndCause.COMPLETE);
  const { usage } = recordOf(settling, call.rid);
  assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.reasoningTokens], [0n, 0n, 0n]);
  assert.equal(usage?.otherModelsNanos, 10n * 5_000n + 10n * 25_000n);
});

test("the price of a part goes by its own tier and length, and what it costs the operator by its own route", () => {
  const dear = { where: {}, aboveInputTokens: 4_000 };
  const opus = modelOf({ ...adviser, routes: [routeTo("claude-opus", "somewhere", 7_000_000n)] });
  const long = { ...opus, priceVersion: "o1+above-4000", prices: { inputTokens: 9_000_000_000n, outputTokens: 9n } };
  const sonnet = modelOf({ ...called, routes: [routeTo("claude-sonnet", "somewhere", 1_000_000n)] });
  const models = catalog(sonnet, { ...opus, variants: [{ ...dear, model: long }] });
  const record = chargeOf([{ model: "claude-opus", usage: advice }], { model: sonnet, offered: sonnet, models });
  assert.equal(record.otherModels[0]?.priceVersion, "o1+above-4000");
  assert.equal(record.upstreamCostNanos, 1_000n + 30n + 7n * 4_000n + 7n * 70n, "no price of the cache there");
});

test("the length that decides prices is that of the longest run, not of all of them together", () => {
  const dear = modelOf({ priceVersion: "v1+above-4500", prices: { inputTokens: 9n, outputTokens: 9n } });
  const offered = modelOf({ ...called, variants: [{ where: {}, aboveInputTokens: 4_500, model: dear }] });
  const versionAt = (longestInputTokens: number | undefined): string => {
    const call = liveCallOf({ model: offered, offered, upstreamModel: "claude-sonnet" });
    call.tally.hasContent = true;
    call.tally.usage = whole;
    call.tally.longestInputTokens = longestInputTokens;
    const settling = settlingOf();
    settle(settling, call, EndCause.COMPLETE);
    return recordOf(settling, call.rid).priceVersion;
  };
  assert.deepEqual(
    [versionAt(4_400), versionAt(4_600), versionAt(undefined)],
    ["v1", "v1+above-4500", "v1+above-4500"],
  );
});
