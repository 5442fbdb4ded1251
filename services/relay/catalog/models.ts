import { usageBuckets, type Units, type UsageBucket } from "#shared/money/pricing.ts";
import {
  isFitting,
  readPriceTable,
  type PriceCondition,
  type PriceTable,
  type PriceTraits,
  type VariantPrices,
} from "./prices.ts";
import { catalogNameOf, type CatalogBuild, type CatalogSource } from "./schema.ts";
import type { CatalogProblem } from "#shared/catalog/document.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { videoDialectOf } from "#shared/catalog/video-dialects.ts";
import type { Quirk } from "../dialects/conversation.ts";
import { upstreamDialectFor } from "../dialects/conversions.ts";
import { dialectNames, type DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import type { StateKind } from "../dialects/state-names.ts";

/** A model at one of its upstreams. */
type Route = {
  upstream: Upstream;
  /** Its name there. */
  model: string;
  priority: number;
  weight: number;
  /** What the operator pays there, where the catalog says it. */
  cost?: PriceTable;
};

export type Model = {
  id: string;
  ownedBy: string;
  /**
   * By the catalog, else by the price version, which all processes read alike and keep over restarts; only where
   * neither tells a day, the day of this process.
   */
  createdAtSeconds: number;
  /** Where the model runs, as the catalog lists it; see chooseRoutes for the order in which the places are tried. */
  routes: Route[];
  contextTokens: number;
  maxOutputTokens: number;
  reserveOutputTokens: number;
  /** Formats in which it may be called. */
  dialects: ReadonlySet<DialectName>;
  /** With the model's id the identity of these prices, which never change. */
  priceVersion: string;
  /** Nano-USD per 1,000,000 units; enough of them for every dialect of the model. */
  prices: Units;
  /** The same model at other prices; the first that fits a call counts. */
  variants: Variant[];
  /** How it differs from what the dialect of its upstreams says. */
  quirks: ReadonlySet<Quirk>;
  /** Whose format of an answer it takes where it is reached by conversion to `anthropic-messages`. */
  structuredOutput?: "provider" | "none";
  /** Whether tools that its provider bills and its prices do not speak of are let through, at the operator's cost. */
  passesUnpricedTools?: boolean;
  /** Kinds of a provider's state whose ids all accounts may use. */
  sharedState?: ReadonlySet<StateKind>;
  /** What videos it makes, for a model of videos. */
  video?: VideoLimits;
};

/** Videos that a model makes. The first length and the first size are made where a caller names none. */
export type VideoLimits = {
  seconds: readonly number[];
  sizes: readonly string[];
  takesReference: boolean;
  deadlineSeconds: number;
};

/** The model at the prices that hold under a condition. */
export type Variant = PriceCondition & { model: Model };

/** An offered model at the prices that hold for a call, whose traits are asked for only where they matter. */
export function pricedFor(model: Model, traitsOfCall: () => PriceTraits): Model {
  if (model.variants.length === 0) return model;
  const traits = traitsOfCall();
  return model.variants.find((variant) => isFitting(variant, traits))?.model ?? model;
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

const asVariant = (model: Model, { name, prices, ...condition }: VariantPrices): Variant => ({
  ...condition,
  model: { ...model, prices, priceVersion: `${model.priceVersion}+${name}` },
});

type Entry = CatalogSource["models"][string];

function buildRoutes(id: string, entry: Entry, { source, problems }: CatalogBuild, upstreams: Map<string, Upstream>) {
  return entry.upstreams.flatMap(({ name, model = id, priority, weight, cost }, index): Route[] => {
    const upstream = upstreams.get(name);
    const path = ["models", id, "upstreams", String(index)];
    const costs = cost && { cost: readPriceTable(cost, { path: [...path, "cost"], problems }) };
    if (upstream) return [{ upstream, model, priority, weight, ...costs }];
    if (Object.hasOwn(source.upstreams, name)) return [];
    problems.push({ path: [...path, "name"], reason: `there is no upstream ${name}` });
    return [];
  });
}

/** The conversation formats that reach the model, by conversion too, unless the catalog names others. */
function dialectsOf(entry: Entry, routes: Route[]): ReadonlySet<DialectName> {
  if (entry.dialects) return new Set(entry.dialects);
  if (entry.video) return new Set();
  const reaches = (name: DialectName): boolean =>
    dialects[name].isConversation && routes.some(({ upstream }) => upstreamDialectFor(name, upstream.dialects));
  return new Set(dialectNames.filter(reaches));
}

// Where no text is made, nothing is estimated from these.
const anyTokens = 1_000_000;

export const makesText = (names: ReadonlySet<DialectName>): boolean =>
  [...names].some((name) => dialects[name].isConversation || name === "openai-completions");

function limitProblems(id: string, entry: Entry, names: ReadonlySet<DialectName>): CatalogProblem[] {
  const lacking = (["context_tokens", "max_output_tokens"] as const).filter((name) => entry[name] === undefined);
  if (!makesText(names)) return [];
  return lacking.map((name) => ({ path: ["models", id], reason: `${name} must be set` }));
}

const videoLimits = ({ seconds, sizes, reference, deadline_seconds }: NonNullable<Entry["video"]>): VideoLimits => ({
  seconds,
  sizes,
  takesReference: reference,
  deadlineSeconds: deadline_seconds,
});

/** What a model of videos lacks: upstreams that make them, a price by which they are charged. */
function videoProblems(id: string, { video, routes, prices, variants }: Model): CatalogProblem[] {
  if (!video) return [];
  const elsewhere = routes.find(({ upstream }) => !videoDialectOf(upstream));
  const unpriced = [prices, ...variants.map(({ model }) => model.prices)].some(
    ({ mediaMs, requests }) => mediaMs === undefined && requests === undefined,
  );
  return [
    ...(elsewhere ? [{ path: ["models", id], reason: `the upstream ${elsewhere.upstream.name} makes no videos` }] : []),
    ...(unpriced ? [{ path: ["models", id, "price"], reason: "media_ms or requests must have a price" }] : []),
  ];
}

const daySeconds = 86_400;
const processDaySeconds = Math.floor(Date.now() / 1_000 / daySeconds) * daySeconds;

/** The day that a price version begins with, as nearly all do; undefined where it begins with none. */
function dayOf(version: string): number | undefined {
  const atMs = Date.parse(/^\d{4}-\d{2}(?:-\d{2})?/.exec(version)?.[0] ?? "");
  return Number.isNaN(atMs) ? undefined : atMs / 1_000;
}

function buildModel(id: string, entry: Entry, routes: Route[], problems: CatalogProblem[]): Model {
  const { prices, variants } = readPriceTable(entry.price, { path: ["models", id, "price"], problems });
  const maxOutputTokens = entry.max_output_tokens ?? anyTokens;
  const model: Model = {
    id,
    ownedBy: entry.owned_by,
    createdAtSeconds: entry.created || (dayOf(entry.price.version) ?? processDaySeconds),
    routes,
    contextTokens: entry.context_tokens ?? anyTokens,
    maxOutputTokens,
    reserveOutputTokens: Math.min(entry.reserve_output_tokens, maxOutputTokens),
    dialects: dialectsOf(entry, routes),
    priceVersion: entry.price.version,
    prices,
    variants: [],
    quirks: new Set(entry.quirks),
    ...(entry.structured_output && { structuredOutput: entry.structured_output }),
    ...(entry.unpriced_tools === "pass" && { passesUnpricedTools: true }),
    ...(entry.shared_state && { sharedState: new Set(entry.shared_state) }),
    ...(entry.video && { video: videoLimits(entry.video) }),
  };
  return { ...model, variants: variants.map((variant) => asVariant(model, variant)) };
}

/** Reads the models of a catalog; what is wrong joins the problems. */
export function buildModels(build: CatalogBuild, upstreams: Map<string, Upstream>): Map<string, Model> {
  const models = new Map<string, Model>();
  for (const [id, entry] of Object.entries(build.source.models)) {
    const model = buildModel(id, entry, buildRoutes(id, entry, build, upstreams), build.problems);
    const path = ["models", id, "price"];
    build.problems.push(...limitProblems(id, entry, model.dialects));
    build.problems.push(...videoProblems(id, model));
    build.problems.push(...priceProblems(path, model.prices, model.dialects));
    model.variants.forEach(({ model: { prices } }, index) => {
      build.problems.push(...priceProblems([...path, "variants", String(index)], prices, model.dialects));
    });
    models.set(id, model);
  }
  return models;
}
