import { UsageSource, type EndCause } from "#proto/usage/v1/usage_pb.ts";
import { costNanos, usageBuckets, type Units } from "#shared/pricing.ts";
import type { Model } from "./catalog-models.ts";
import type { Envelope, Tally } from "./dialects/dialect.ts";
import { endingOf, sourceOf } from "./outcomes.ts";

// A page or picture is about this many tokens at every provider, plus a share of what very large files hold.
const tokensPerMedia = 1_600;
const mediaBytesPerToken = 1_000;

function mediaTokens(mediaBytes: readonly number[]): number {
  return mediaBytes.reduce((sum, bytes) => sum + tokensPerMedia + Math.ceil(bytes / mediaBytesPerToken), 0);
}

type Limits = Pick<Model, "contextTokens" | "maxOutputTokens" | "reserveOutputTokens">;

/**
 * Input tokens that a call may need, from its bytes: no tokenizer runs on the event loop. Three bytes to a token and a
 * tenth on top is above what providers count for nearly all text; it is a hold, not a price.
 */
export function estimateInputTokens({ body }: Envelope, model: Limits): number {
  const text = Math.ceil((body.textBytes / 3) * 1.1);
  return Math.min(text + mediaTokens(body.mediaBytes), model.contextTokens);
}

/** Input tokens charged when the provider's own count never came: four bytes to a token. */
export function countInputTokens({ body }: Envelope, model: Limits): number {
  return Math.min(Math.ceil(body.textBytes / 4) + mediaTokens(body.mediaBytes), model.contextTokens);
}

/** Output tokens to hold money for: the caller's cap, at most the model's, or the model's reserve default. */
export function estimateOutputTokens({ outputCap, choices }: Envelope, model: Limits): number {
  const cap = Math.min(outputCap ?? model.reserveOutputTokens, model.maxOutputTokens);
  return cap * choices;
}

/** Nano-USD to hold. Output may turn out to be reasoning, so the dearer of the two prices counts. */
export function estimateNanos(envelope: Envelope, { prices, ...model }: Model): bigint {
  const { outputTokens = 0n, reasoningTokens = 0n } = prices;
  const outputPrice = outputTokens > reasoningTokens ? outputTokens : reasoningTokens;
  const usage: Units = {
    ...envelope.units,
    inputTokens: BigInt(estimateInputTokens(envelope, model)),
    outputTokens: BigInt(estimateOutputTokens(envelope, model)),
    requests: 1n,
  };
  return costNanos(usage, { ...prices, outputTokens: outputPrice });
}

/** The units that a call is charged for, and all that are known of it, priced or not. */
export type Metered = { usage: Units; measured: Units; source: UsageSource };

/** What is known of a request's use without its answer. */
export type Requested = { inputTokens: number; units: Units; priceFields: Record<string, string> };

function counted(tally: Tally, { inputTokens, units }: Requested): Units {
  const outputTokens = BigInt(Math.ceil(tally.contentTokens));
  const known: Units = { inputTokens: BigInt(inputTokens), ...units, ...tally.counted, ...tally.inputUsage };
  // What the provider told may be in units that the model is not priced by, and all of it 0.
  return { ...known, outputTokens, ...usedOnly(tally.usage ?? {}), requests: 1n };
}

/** The units that a model's prices speak of: an image model priced by the image is not charged for tokens too. */
export function pricedOnly(usage: Units, prices: Units): Units {
  const kept: Units = {};
  for (const bucket of usageBuckets) {
    const units = usage[bucket];
    if (units !== undefined && prices[bucket] !== undefined) kept[bucket] = units;
  }
  return kept;
}

/** Where no price speaks of any unit all stay, so that the ledger refuses the call aloud, not books it as free. */
function priced(usage: Units, prices: Units): Units {
  const kept = pricedOnly(usage, prices);
  return Object.keys(kept).length > 0 ? kept : usage;
}

const usedOnly = (usage: Units): Units =>
  Object.fromEntries(Object.entries(usage).filter(([, units]) => units > 0n)) as Units;

const hasUnits = (usage: Units): boolean => Object.values(usage).some((units) => units > 0n);

/** What the provider tells, and beside it what only the request and the answer can tell, such as a number of images. */
function told(tally: Tally, { units: { images, characters } }: Requested): Units {
  const known: Units = { ...(images !== undefined && { images }), ...(characters !== undefined && { characters }) };
  return { ...known, ...tally.counted, ...tally.usage, requests: 1n };
}

/** What a call is charged for, by how it ended: measured as the row of the outcomes says that fits it. */
export function meterCall(tally: Tally, endCause: EndCause, requested: Requested, prices: Units): Metered {
  const source = sourceOf({
    ending: endingOf(endCause),
    hasContent: tally.hasContent,
    hasCounts: tally.usage !== undefined && hasUnits(pricedOnly(tally.usage, prices)),
    hasInputCount: tally.inputUsage !== undefined,
  });
  if (source === UsageSource.NONE) return { usage: {}, measured: tally.usage ?? tally.inputUsage ?? {}, source };
  const measured = source === UsageSource.PROVIDER ? told(tally, requested) : counted(tally, requested);
  return { usage: priced(measured, prices), measured, source };
}

// Asked for with each piece of a stream, and always the same.
const inputCosts = new WeakMap<Units, { prices: Units; nanos: number }>();

function inputCostNanos(inputUsage: Units, prices: Units): number {
  let known = inputCosts.get(inputUsage);
  if (known?.prices !== prices) {
    inputCosts.set(inputUsage, (known = { prices, nanos: Number(costNanos(inputUsage, prices)) }));
  }
  return known.nanos;
}

/**
 * Nano-USD that a running stream has cost so far, as a number: it only steers holds and checkpoints, so a float's
 * rounding does no harm here.
 */
export function runningCostNanos(tally: Tally, model: Model, inputTokens: number): number {
  const { inputTokens: inputPrice = 0n, outputTokens: outputPrice = 0n, reasoningTokens = 0n } = model.prices;
  const dearest = Number(outputPrice > reasoningTokens ? outputPrice : reasoningTokens);
  const input = tally.inputUsage
    ? inputCostNanos(tally.inputUsage, model.prices)
    : (inputTokens * Number(inputPrice)) / 1_000_000;
  return input + (tally.contentTokens * dearest) / 1_000_000;
}
