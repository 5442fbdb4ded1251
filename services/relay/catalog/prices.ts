import { formatUsd, parseUsd } from "#shared/money/money.ts";
import { usageBuckets, type Units, type UsageBucket } from "#shared/money/pricing.ts";
import type { CatalogProblem } from "#shared/catalog/document.ts";
import { catalogNameOf } from "./schema.ts";

/** What a call must be like for other prices to hold: fields with these values, and more input than so many tokens. */
export type PriceCondition = { where: Record<string, string>; aboveInputTokens: number };

/** What of a call decides its prices. */
export type PriceTraits = { fields: Record<string, string>; inputTokens: number };

/** Prices under a condition; `name` says the condition in a price version. */
export type VariantPrices = PriceCondition & { name: string; prices: Units };

/** Nano-USD per 1,000,000 units, and what holds instead for some calls; the first variant that fits counts. */
export type PriceTable = { prices: Units; variants: VariantPrices[] };

/** Whether a call is of the kind that a condition names. */
export function isFitting({ where, aboveInputTokens }: PriceCondition, { fields, inputTokens }: PriceTraits): boolean {
  return inputTokens > aboveInputTokens && Object.entries(where).every(([name, value]) => fields[name] === value);
}

/** The prices of a table that hold for a call, whose traits are asked for only where they matter. */
export function pricesFor({ prices, variants }: PriceTable, traitsOfCall: () => PriceTraits): Units {
  if (variants.length === 0) return prices;
  const traits = traitsOfCall();
  return variants.find((variant) => isFitting(variant, traits))?.prices ?? prices;
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

type BucketPrices = Partial<Record<string, unknown>>;

function namedPrices(source: BucketPrices): Units {
  const prices: Units = {};
  for (const bucket of usageBuckets) {
    const text = source[catalogNameOf(bucket)];
    if (typeof text === "string") prices[bucket] = parseUsd(text);
  }
  return prices;
}

function withFallbacks(named: Units): Units {
  const prices = { ...named };
  for (const [bucket, fallback] of Object.entries(fallbackBuckets)) {
    const inherited = prices[fallback];
    if (inherited !== undefined) prices[bucket as keyof typeof fallbackBuckets] ??= inherited;
  }
  return prices;
}

type Place = { path: string[]; problems: CatalogProblem[] };

// What a price may be that is written out; a larger one would not fit the usage event's int64.
const maxPriceNanos = parseUsd("999999999.999999999");

// A tier or a long input changes what tokens cost, not what a run of a tool does
// (https://developers.openai.com/api/docs/pricing, November 2026).
const toolBuckets = new Set<UsageBucket>([
  "toolCalls",
  "webSearches",
  "webFetches",
  "fileSearches",
  "codeSessions",
  "searchSources",
]);

/**
 * Base prices times a decimal, but those of tools. A product that is no whole number of nano-USD is a problem, not
 * rounded: the charge is the only rounding that there is.
 */
function multiplied(base: Units, multiplier: string, { path, problems }: Place): Units {
  const [whole = "", decimals = ""] = multiplier.split(".");
  const numerator = BigInt(whole + decimals);
  const denominator = 10n ** BigInt(decimals.length);
  const prices: Units = {};
  for (const bucket of Object.keys(base) as UsageBucket[]) {
    if (toolBuckets.has(bucket)) {
      prices[bucket] = base[bucket] ?? 0n;
      continue;
    }
    const product = (base[bucket] ?? 0n) * numerator;
    prices[bucket] = product / denominator;
    const what = `${catalogNameOf(bucket)} ${shortUsd(base[bucket] ?? 0n)} times ${multiplier}`;
    const problem = (reason: string) => problems.push({ path: [...path, "multiplier"], reason: `${what} ${reason}` });
    if (product % denominator !== 0n) problem("is no whole number of nano-USD per 1,000,000 units");
    else if (product / denominator > maxPriceNanos) problem("is more than a price may be");
  }
  return prices;
}

/** A price in USD per 1,000,000 units without the zeros at its end. */
export function shortUsd(nanos: bigint): string {
  return formatUsd(nanos).replace(/\.?0+$/, "");
}

type VariantSource = BucketPrices & {
  size?: string;
  quality?: string;
  service_tier?: string;
  search_context_size?: string;
  above_input_tokens?: number;
  multiplier?: string;
};

/** Prices as the catalog writes them: named by bucket, with variants. */
export type PriceSource = BucketPrices & { variants?: VariantSource[] };

function readVariant(source: VariantSource, base: Units, place: Place): VariantPrices {
  const { size, quality, service_tier: tier, above_input_tokens: above, multiplier } = source;
  const { search_context_size: searched } = source;
  const where = {
    ...(size !== undefined && { size }),
    ...(quality !== undefined && { quality }),
    ...(tier !== undefined && { service_tier: tier }),
    ...(searched !== undefined && { search_context_size: searched }),
  };
  const conditions = [...Object.values(where), ...(above === undefined ? [] : [`above-${above}`])];
  if (conditions.length === 0)
    place.problems.push({ path: place.path, reason: "a variant must say for which calls it holds" });
  const own = namedPrices(source);
  const kept = Object.fromEntries(
    Object.entries(base).filter(([bucket]) => own[bucket as UsageBucket] === undefined),
  ) as Units;
  const inherited = multiplier === undefined ? kept : multiplied(kept, multiplier, place);
  const prices = withFallbacks({ ...inherited, ...own });
  return { where, aboveInputTokens: above ?? -1, name: conditions.join("-"), prices };
}

/** Reads prices and their variants; what is wrong joins the problems, told at `path`. */
export function readPriceTable(source: PriceSource, { path, problems }: Place): PriceTable {
  const base = namedPrices(source);
  const variants = (source.variants ?? []).map((variant, index) =>
    readVariant(variant, base, { path: [...path, "variants", String(index)], problems }),
  );
  return { prices: withFallbacks(base), variants };
}
