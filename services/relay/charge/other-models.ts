import { costNanos, type Units, type UsageBucket } from "#shared/money/pricing.ts";
import { pricedFor, type Model } from "../catalog/models.ts";
import type { PriceTable } from "../catalog/prices.ts";
import type { ModelPart } from "../dialects/dialect.ts";
import type { Route } from "../catalog/choose.ts";
import { CallFailure } from "../failures.ts";
import type { LiveCall } from "../live-call.ts";
import { inputOf, pricedOnly } from "./meter.ts";

/** A part of a call that another model of the catalog ran, at the prices that hold for it. */
export type OtherPart = { model: Model; upstreamModel: string; usage: Units; costNanos: bigint };

/** The parts of a call that other models ran, what is left for the called one, and names that the catalog lacks. */
export type Division = { own: Units; others: OtherPart[]; unknown: string[] };

const version = /-(?:\d{8}|\d{4}-\d{2}-\d{2})$/;
const isAlike = (one: string, other: string): boolean =>
  one === other || one.replace(version, "") === other || one === other.replace(version, "");

type Called = Pick<LiveCall, "offered" | "upstream" | "upstreamModel" | "models">;

/** The model that the provider means by a name: the one that runs there by it, else one that is offered by it. */
function findModel(name: string, { offered, upstream, upstreamModel, models }: Called): Model | undefined {
  if (isAlike(name, upstreamModel)) return offered;
  for (const model of models?.values() ?? []) {
    if (model.routes.some((route) => route.upstream.name === upstream && isAlike(name, route.model))) return model;
  }
  return models?.get(name);
}

type Fallible = {
  offered: Model;
  /** Those by which the request goes as it came. */
  routes: readonly Route[];
  models: ReadonlyMap<string, Model>;
  /** Models that the key may use; none named: all. */
  allowed: readonly string[];
};

/**
 * Refuses, before money, models to fall back to that have no prices here, for they would be charged as the called one,
 * and those that the key may not use. Throws `field_invalid` or `model_unavailable`.
 */
export function refuseFallbacks(names: readonly string[], { offered, routes, models, allowed }: Fallible): void {
  for (const { upstream, model: upstreamModel } of routes) {
    for (const name of names) {
      const found = findModel(name, { offered, upstream: upstream.name, upstreamModel, models });
      if (!found || !isPriced(found)) {
        const detail = `the model "${name.slice(0, 200)}" in field fallbacks has no price and cannot be used`;
        throw new CallFailure({ name: "field_invalid", detail });
      }
      if (found.id !== offered.id && allowed.length > 0 && !allowed.includes(found.id)) {
        throw new CallFailure({ name: "model_unavailable", detail: name });
      }
    }
  }
}

/** What the operator pays for a model at an upstream, where the catalog says it. */
export function costOf({ routes }: Model, at: Pick<LiveCall, "upstream" | "upstreamModel">): PriceTable | undefined {
  const there = routes.filter(({ upstream }) => upstream.name === at.upstream);
  const isSame = there.find(({ model }) => model === at.upstreamModel);
  return (isSame ?? there.find(({ model }) => isAlike(at.upstreamModel, model)))?.cost;
}

/** Takes as much as there is. */
function take(from: Units, bucket: UsageBucket, wanted: bigint): bigint {
  const there = from[bucket] ?? 0n;
  const taken = there < wanted ? there : wanted;
  if (taken > 0n) from[bucket] = there - taken;
  return wanted - taken;
}

/** Takes the units of a part out of the whole. Which of a run's output was thinking is told of the whole only. */
function takeOut(own: Units, part: Units): void {
  for (const name in part) {
    const bucket = name as UsageBucket;
    const missing = take(own, bucket, part[bucket] ?? 0n);
    if (bucket === "outputTokens") take(own, "reasoningTokens", missing);
  }
}

/** Whether a model is charged by tokens of text: of others there is no price for such a part. */
const isPriced = ({ prices }: Model): boolean => prices.inputTokens !== undefined && prices.outputTokens !== undefined;

function readPart({ model: name, usage }: ModelPart, call: LiveCall): OtherPart | "own" | undefined {
  const found = findModel(name, call);
  if (found?.id === call.offered.id) return "own";
  if (!found || !isPriced(found)) return undefined;
  const { serviceTier } = call.tally;
  const fields: Record<string, string> = serviceTier === undefined ? {} : { service_tier: serviceTier };
  const model = pricedFor(found, () => ({ fields, inputTokens: Number(inputOf(usage)) }));
  const priced = pricedOnly(usage, model.prices);
  return { model, upstreamModel: name, usage: priced, costNanos: costNanos(priced, model.prices) };
}

/**
 * Divides the provider's counts among the models that ran them, for a part costs what its own model costs. A name that
 * the catalog does not have stays with the called model: it is not free, and the operator is told.
 */
export function divide(call: LiveCall, usage: Units): Division | undefined {
  const { byModel } = call.tally;
  if (!byModel) return undefined;
  const division: Division = { own: { ...usage }, others: [], unknown: [] };
  for (const part of byModel) {
    const found = readPart(part, call);
    if (found === undefined) division.unknown.push(part.model);
    else if (found !== "own") {
      takeOut(division.own, part.usage);
      division.others.push(found);
    }
  }
  return division;
}

// A unit is a nano-USD.
const atPar = 1_000_000n;

const rows = new WeakMap<Model, Model>();

/** The price row of a call of which other models ran a part: the model's, and what such a part costs. */
export function withOtherModels(model: Model): Model {
  if (model.prices.otherModelsNanos !== undefined) return model;
  let row = rows.get(model);
  if (!row) {
    const prices = { ...model.prices, otherModelsNanos: atPar };
    rows.set(model, (row = { ...model, prices, priceVersion: `${model.priceVersion}+other-models` }));
  }
  return row;
}
