import { parseUsd } from "#shared/money.ts";
import { usageBuckets, type Units } from "#shared/pricing.ts";
import { catalogNameOf, type CatalogBuild, type CatalogProblem } from "./catalog-schema.ts";
import type { Upstream } from "./catalog-upstreams.ts";

export type Model = {
  id: string;
  ownedBy: string;
  createdAtSeconds: number;
  /** Where the model runs, in the order in which the places are tried. */
  routes: { upstream: Upstream; model: string }[];
  contextTokens: number;
  maxOutputTokens: number;
  reserveOutputTokens: number;
  priceVersion: string;
  /** Nano-USD per 1,000,000 units; every bucket of tokens has one. */
  prices: Units;
};

// A bucket without a price of its own is charged as the bucket it belongs to, so that no token is ever free.
const fallbackBuckets = {
  cacheReadTokens: "inputTokens",
  cacheWrite5mTokens: "inputTokens",
  cacheWrite1hTokens: "cacheWrite5mTokens",
  reasoningTokens: "outputTokens",
  audioInputTokens: "inputTokens",
  audioOutputTokens: "outputTokens",
  imageInputTokens: "inputTokens",
  imageOutputTokens: "outputTokens",
} as const;

function readPrices(price: Record<string, string | undefined>): Units {
  const prices: Units = {};
  for (const bucket of usageBuckets) {
    const text = price[catalogNameOf(bucket)];
    if (text !== undefined) prices[bucket] = parseUsd(text);
  }
  for (const [bucket, fallback] of Object.entries(fallbackBuckets)) {
    const inherited = prices[fallback];
    if (inherited !== undefined) prices[bucket as keyof typeof fallbackBuckets] ??= inherited;
  }
  return prices;
}

function priceProblems(id: string, prices: Units): CatalogProblem[] {
  const missing = (["inputTokens", "outputTokens"] as const).filter((bucket) => prices[bucket] === undefined);
  const zero = usageBuckets.filter((bucket) => prices[bucket] === 0n && !missing.some((name) => name === bucket));
  const path = ["models", id, "price"];
  return [
    ...missing.map((bucket) => ({ path, reason: `${catalogNameOf(bucket)} has no price` })),
    ...zero.map((bucket) => ({
      path: [...path, catalogNameOf(bucket)],
      reason: `${catalogNameOf(bucket)} would be served for nothing: a price of 0 is refused`,
    })),
  ];
}

/** Reads the models of a catalog; what is wrong joins the problems. */
export function buildModels({ source, problems }: CatalogBuild, upstreams: Map<string, Upstream>): Map<string, Model> {
  const models = new Map<string, Model>();
  for (const [id, entry] of Object.entries(source.models)) {
    const prices = readPrices(entry.price);
    problems.push(...priceProblems(id, prices));
    const routes = entry.upstreams.flatMap(({ name, model = id }, index) => {
      const upstream = upstreams.get(name);
      if (upstream) return [{ upstream, model }];
      if (Object.hasOwn(source.upstreams, name)) return [];
      problems.push({ path: ["models", id, "upstreams", index, "name"], reason: `there is no upstream ${name}` });
      return [];
    });
    models.set(id, {
      id,
      ownedBy: entry.owned_by,
      createdAtSeconds: entry.created,
      routes,
      contextTokens: entry.context_tokens,
      maxOutputTokens: entry.max_output_tokens,
      reserveOutputTokens: Math.min(entry.reserve_output_tokens, entry.max_output_tokens),
      priceVersion: entry.price.version,
      prices,
    });
  }
  return models;
}
