import { create } from "@bufbuild/protobuf";
import { UsageSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { costNanos, usageBuckets, type Units, type UsageBucket } from "#shared/money/pricing.ts";
import type { Model } from "../catalog/models.ts";
import { noCounts, type Tally } from "../dialects/dialect.ts";

// Counts that no call can have come of providers that are broken, or lie. Unbounded they overflow an int64, and
// auth-quota and the ledger refuse the charge: a free answer, and a hold that stays.

/** The limits of a model by which its counts are believed. */
export type UnitLimits = Pick<Model, "contextTokens" | "maxOutputTokens">;

const tokenBuckets = usageBuckets.filter((bucket) => bucket.endsWith("Tokens"));
export const inputBuckets = tokenBuckets.filter((bucket) => /input|cache/i.test(bucket));
export const outputBuckets = tokenBuckets.filter((bucket) => !inputBuckets.includes(bucket));

// A call may sample its model many times: up to 128 choices, tools that the provider runs, compactions, lists of texts.
// Counts are believed up to so many times the model's limits, or as many tokens as the largest body (128 MB) has.
const mostSamplings = 128n;
const usualTokens = 2n ** 25n;

/** The most that is believed of units that are no tokens: a week of sound, the characters of the largest body. */
const mostUnits: Partial<Record<UsageBucket, bigint>> = {
  images: 10_000n,
  characters: 2n ** 27n,
  mediaMs: 604_800_000n,
  toolCalls: 10_000n,
  webSearches: 10_000n,
  webFetches: 10_000n,
  fileSearches: 10_000n,
  codeSessions: 10_000n,
  searchSources: 10_000n,
};
const boundedBuckets = Object.keys(mostUnits) as UsageBucket[];

// 1,000,000 USD: more than any call costs, and a small part of what auth-quota and the ledger can count.
const mostCallNanos = 1_000_000_000_000_000n;

export function sumOf(usage: Units, buckets: readonly UsageBucket[]): bigint {
  let sum = 0n;
  for (const bucket of buckets) sum += usage[bucket] ?? 0n;
  return sum;
}

function isPossible(usage: Units, buckets: readonly UsageBucket[], limit: number): boolean {
  const sum = sumOf(usage, buckets);
  return sum <= usualTokens || sum <= BigInt(limit) * mostSamplings;
}

/** Leaves `most` units in these buckets, taken from the largest first: that is where the impossible is. */
function fit(usage: Units, buckets: readonly UsageBucket[], most: number): void {
  const unitsOf = (bucket: UsageBucket): bigint => usage[bucket] ?? 0n;
  let left = BigInt(most);
  for (const bucket of buckets.toSorted((one, other) => (unitsOf(one) < unitsOf(other) ? -1 : 1))) {
    const taken = unitsOf(bucket) < left ? unitsOf(bucket) : left;
    if (usage[bucket] !== undefined) usage[bucket] = taken;
    left -= taken;
  }
}

function isEmpty(usage: Units): boolean {
  for (const _ in usage) return false;
  return true;
}

/**
 * The same units when a call can have used them. Else tokens of a side that cannot be are what one sampling of the
 * model takes at most, and other units that cannot be are left out, as if they had not been told.
 */
export function possibleUnits(usage: Units, { contextTokens, maxOutputTokens }: UnitLimits): Units {
  if (isEmpty(usage)) return usage;
  const isInput = isPossible(usage, inputBuckets, contextTokens);
  const isOutput = isPossible(usage, outputBuckets, maxOutputTokens);
  const impossible = boundedBuckets.filter((bucket) => (usage[bucket] ?? 0n) > (mostUnits[bucket] ?? 0n));
  if (isInput && isOutput && impossible.length === 0) return usage;
  const possible = { ...usage };
  if (!isInput) fit(possible, inputBuckets, contextTokens);
  if (!isOutput) fit(possible, outputBuckets, maxOutputTokens);
  for (const bucket of impossible) delete possible[bucket];
  return possible;
}

/** Puts what is possible in the place of counts that are not, and keeps those as `impossible`. */
export function boundTally(tally: Tally, limits: UnitLimits): void {
  const { usage, inputUsage, counted } = tally;
  if (usage === noCounts) {
    tally.usage = undefined;
    tally.impossible ??= noCounts;
  } else if (usage) {
    tally.usage = possibleUnits(usage, limits);
    if (tally.usage !== usage) tally.impossible = usage;
  }
  if (inputUsage) {
    tally.inputUsage = possibleUnits(inputUsage, limits);
    if (tally.inputUsage !== inputUsage) tally.impossible ??= inputUsage;
  }
  tally.counted = possibleUnits(counted, limits);
  tally.byModel = tally.byModel?.map((part) => ({ ...part, usage: possibleUnits(part.usage, limits) }));
}

function scaled(usage: Units, part: bigint, whole: bigint): Units {
  const units: Units = {};
  for (const bucket of usageBuckets) {
    const found = usage[bucket] ?? 0n;
    if (found > 0n) units[bucket] = (found * part) / whole;
  }
  return units;
}

/** What units cost, and the units; as many as cost what a call may, should a catalog's prices make them dearer. */
export function boundCharge(usage: Units, prices: Units): { usage: Units; costNanos: bigint } {
  const cost = costNanos(usage, prices);
  if (cost <= mostCallNanos) return { usage, costNanos: cost };
  const units = scaled(usage, mostCallNanos, cost);
  return { usage: units, costNanos: costNanos(units, prices) };
}

const maxCount = BigInt(Number.MAX_SAFE_INTEGER);

/** Told counts as an event can carry them; undefined when there are none that are numbers. */
export function tellable(told: Units | undefined): Units | undefined {
  if (!told || told === noCounts) return undefined;
  const units: Units = {};
  for (const bucket of usageBuckets) {
    const found = told[bucket];
    if (found !== undefined) units[bucket] = found > maxCount ? maxCount : found;
  }
  return units;
}

/**
 * A charge for a record that a relay of an earlier version has left in its spool, which did not bound what it was told:
 * what was held, in the proportions of what was told. Made anew it is the same again. Undefined for any other record.
 */
export function boundedRecord(record: UsageRecorded): UsageRecorded | undefined {
  const { heldNanos } = record;
  const usage: Units = record.usage ?? {};
  const prices: Units = record.unitPriceNanos ?? {};
  const isSound = usageBuckets.every((bucket) => (usage[bucket] ?? 0n) >= 0n);
  const positive = isSound ? usage : scaled(usage, 1n, 1n);
  const cost = costNanos(positive, prices);
  if (isSound && cost <= mostCallNanos) return undefined;
  const units = cost > heldNanos ? scaled(positive, heldNanos, cost) : positive;
  const bounded = { usage: create(UsageSchema, units), costNanos: costNanos(units, prices) };
  return { ...record, ...bounded, toldUsage: create(UsageSchema, tellable(usage)) };
}
