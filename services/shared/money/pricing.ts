import type { Usage } from "#proto/usage/v1/usage_pb.ts";

/** The disjoint buckets of use, as named in usage.v1.Usage. */
export const usageBuckets = [
  "inputTokens",
  "cacheReadTokens",
  "cacheWrite5mTokens",
  "cacheWrite1hTokens",
  "outputTokens",
  "reasoningTokens",
  "audioInputTokens",
  "audioOutputTokens",
  "imageInputTokens",
  "imageOutputTokens",
  "images",
  "characters",
  "mediaMs",
  "toolCalls",
  "requests",
  "webSearches",
  "webFetches",
  "fileSearches",
  "codeSessions",
  "searchSources",
  "otherModelsNanos",
] as const satisfies (keyof Usage)[];

export type UsageBucket = (typeof usageBuckets)[number];

/** Units per bucket; a bucket left out is 0. As prices: nano-USD per 1,000,000 of the units. */
export type Units = Partial<Record<UsageBucket, bigint>>;

const unitsPerPrice = 1_000_000n;

function assertNotNegative(units: Units, what: string): void {
  for (const bucket of usageBuckets) {
    const found = units[bucket];
    if (found !== undefined && found < 0n) throw new RangeError(`${bucket}: ${found} ${what} is negative`);
  }
}

// Prices are read once and used for many calls; none are changed in place.
const soundPrices = new WeakSet<Units>();

/**
 * What `usage` costs at `prices`, in nano-USD: one sum over all buckets, divided once and rounded up once, so that
 * splitting a call into buckets never changes its price. Throws a RangeError for negative units or prices.
 */
export function costNanos(usage: Units, prices: Units): bigint {
  if (!soundPrices.has(prices)) {
    assertNotNegative(prices, "nano-USD per 1,000,000 units");
    soundPrices.add(prices);
  }
  let millionths = 0n;
  for (const bucket of usageBuckets) {
    const units = usage[bucket];
    // Most buckets of a call are not used.
    if (units === undefined || units === 0n) continue;
    if (units < 0n) assertNotNegative(usage, "units");
    const price = prices[bucket];
    if (price !== undefined) millionths += units * price;
  }
  return nanosOf(millionths);
}

/** A sum of units times prices in nano-USD, rounded up. */
export function nanosOf(millionths: bigint): bigint {
  return (millionths + unitsPerPrice - 1n) / unitsPerPrice;
}

/** The first bucket that was used but has no price; a call that used it must not pass as free. */
export function unpricedBucket(usage: Units, prices: Units): UsageBucket | undefined {
  return usageBuckets.find((bucket) => (usage[bucket] ?? 0n) > 0n && prices[bucket] === undefined);
}
