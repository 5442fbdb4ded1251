import { parseUsd } from "#shared/money.ts";
import { usageBuckets, type Units, type UsageBucket } from "#shared/pricing.ts";
import { catalogNameOf, type CatalogBuild, type CatalogProblem, type CatalogSource } from "./catalog-schema.ts";
import type { Upstream } from "./catalog-upstreams.ts";
import type { Quirk } from "./dialects/conversation.ts";
import { upstreamDialectFor } from "./dialects/conversions.ts";
import { dialectNames, type DialectName } from "./dialects/dialect.ts";
import { dialects } from "./dialects/index.ts";

export type Model = {
  id: string;
  ownedBy: string;
  createdAtSeconds: number;
  /** Where the model runs, as the catalog lists it; see chooseRoutes for the order in which the places are tried. */
  routes: { upstream: Upstream; model: string; priority: number; weight: number }[];
  contextTokens: number;
  maxOutputTokens: number;
  reserveOutputTokens: number;
  /** Formats in which it may be called. */
  dialects: ReadonlySet<DialectName>;
  priceVersion: string;
  /** Nano-USD per 1,000,000 units; enough of them for every dialect of the model. */
  prices: Units;
  /** The same model at other prices; the first that fits a call counts. */
  variants: Variant[];
  /** How it differs from what the dialect of its upstreams says. */
  quirks: ReadonlySet<Quirk>;
};

/** Prices for calls whose fields have these values and whose whole input is above so many tokens. */
export type Variant = { where: Record<string, string>; aboveInputTokens: number; model: Model };

/** What of a call decides its prices. */
export type PriceTraits = { fields: Record<string, string>; inputTokens: number };

/** An offered model at the prices that hold for a call, whose traits are asked for only where they matter. */
export function pricedFor(model: Model, traitsOfCall: () => PriceTraits): Model {
  if (model.variants.length === 0) return model;
  const { fields, inputTokens } = traitsOfCall();
  const fitting = model.variants.find(
    ({ where, aboveInputTokens }) =>
      inputTokens > aboveInputTokens && Object.entries(where).every(([name, value]) => fields[name] === value),
  );
  return fitting?.model ?? model;
}

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

type PriceSource = CatalogSource["models"][string]["price"];
type BucketPrices = Partial<Record<string, unknown>>;

function readPrices(price: BucketPrices): Units {
  const prices: Units = {};
  for (const bucket of usageBuckets) {
    const text = price[catalogNameOf(bucket)];
    if (typeof text === "string") prices[bucket] = parseUsd(text);
  }
  for (const [bucket, fallback] of Object.entries(fallbackBuckets)) {
    const inherited = prices[fallback];
    if (inherited !== undefined) prices[bucket as keyof typeof fallbackBuckets] ??= inherited;
  }
  return prices;
}

/** A dialect of the model for which no set of prices is whole lacks these. */
function missingPrices(prices: Units, names: ReadonlySet<DialectName>): UsageBucket[] {
  const missing = [...names].map((name) => {
    const lacking = dialects[name].measures.map((set) => set.filter((bucket) => prices[bucket] === undefined));
    return lacking.toSorted((one, other) => one.length - other.length)[0] ?? [];
  });
  return [...new Set(missing.flat())];
}

function priceProblems(path: string[], prices: Units, names: ReadonlySet<DialectName>): CatalogProblem[] {
  const missing = missingPrices(prices, names);
  const zero = usageBuckets.filter((bucket) => prices[bucket] === 0n && !missing.includes(bucket));
  return [
    ...missing.map((bucket) => ({ path, reason: `${catalogNameOf(bucket)} has no price` })),
    ...zero.map((bucket) => ({
      path: [...path, catalogNameOf(bucket)],
      reason: `${catalogNameOf(bucket)} would be served for nothing: a price of 0 is refused`,
    })),
  ];
}

function buildVariants(model: Model, { variants = [], ...base }: PriceSource): Model["variants"] {
  return variants.map(({ size, quality, service_tier: tier, above_input_tokens: above = -1, ...prices }) => ({
    where: {
      ...(size !== undefined && { size }),
      ...(quality !== undefined && { quality }),
      ...(tier !== undefined && { service_tier: tier }),
    },
    aboveInputTokens: above,
    model: { ...model, prices: readPrices({ ...base, ...prices }) },
  }));
}

type Entry = CatalogSource["models"][string];

function buildRoutes(id: string, entry: Entry, { source, problems }: CatalogBuild, upstreams: Map<string, Upstream>) {
  return entry.upstreams.flatMap(({ name, model = id, priority, weight }, index) => {
    const upstream = upstreams.get(name);
    if (upstream) return [{ upstream, model, priority, weight }];
    if (Object.hasOwn(source.upstreams, name)) return [];
    problems.push({ path: ["models", id, "upstreams", index, "name"], reason: `there is no upstream ${name}` });
    return [];
  });
}

/** The conversation formats that reach the model, by conversion too, unless the catalog names others. */
function dialectsOf(entry: Entry, routes: Model["routes"]): ReadonlySet<DialectName> {
  if (entry.dialects) return new Set(entry.dialects);
  const reaches = (name: DialectName): boolean =>
    dialects[name].isConversation && routes.some(({ upstream }) => upstreamDialectFor(name, upstream.dialects));
  return new Set(dialectNames.filter(reaches));
}

// Where no text is made, nothing is estimated from these.
const anyTokens = 1_000_000;

const makesText = (names: ReadonlySet<DialectName>): boolean =>
  [...names].some((name) => dialects[name].isConversation || name === "openai-completions");

function limitProblems(id: string, entry: Entry, names: ReadonlySet<DialectName>): CatalogProblem[] {
  const lacking = (["context_tokens", "max_output_tokens"] as const).filter((name) => entry[name] === undefined);
  if (!makesText(names)) return [];
  return lacking.map((name) => ({ path: ["models", id], reason: `${name} must be set` }));
}

function buildModel(id: string, entry: Entry, routes: Model["routes"]): Model {
  const maxOutputTokens = entry.max_output_tokens ?? anyTokens;
  const model: Model = {
    id,
    ownedBy: entry.owned_by,
    createdAtSeconds: entry.created,
    routes,
    contextTokens: entry.context_tokens ?? anyTokens,
    maxOutputTokens,
    reserveOutputTokens: Math.min(entry.reserve_output_tokens, maxOutputTokens),
    dialects: dialectsOf(entry, routes),
    priceVersion: entry.price.version,
    prices: readPrices(entry.price),
    variants: [],
    quirks: new Set(entry.quirks),
  };
  return { ...model, variants: buildVariants(model, entry.price) };
}

/** Reads the models of a catalog; what is wrong joins the problems. */
export function buildModels(build: CatalogBuild, upstreams: Map<string, Upstream>): Map<string, Model> {
  const models = new Map<string, Model>();
  for (const [id, entry] of Object.entries(build.source.models)) {
    const model = buildModel(id, entry, buildRoutes(id, entry, build, upstreams));
    const path = ["models", id, "price"];
    build.problems.push(...limitProblems(id, entry, model.dialects));
    build.problems.push(...priceProblems(path, model.prices, model.dialects));
    model.variants.forEach(({ model: { prices } }, index) => {
      build.problems.push(...priceProblems([...path, "variants", String(index)], prices, model.dialects));
    });
    models.set(id, model);
  }
  return models;
}
