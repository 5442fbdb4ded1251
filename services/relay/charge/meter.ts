import type { RequestFacts } from "../live-call.ts";
import { UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { costNanos, usageBuckets, type Units, type UsageBucket } from "#shared/money/pricing.ts";
import type { Model } from "../catalog/models.ts";
import type { Quirk } from "../dialects/conversation.ts";
import { outputOf, type Envelope, type Tally } from "../dialects/dialect.ts";
import type { RequestBody } from "../dialects/json/request-body.ts";
import type { MoreOutput } from "../dialects/more-output.ts";
import { maxPictureTokens, mediaTokens, usualPictureTokens } from "./media-tokens.ts";
import { sourceOf, type Ending } from "./outcomes.ts";
import { inputBuckets, outputBuckets, possibleUnits, sumOf } from "./possible-usage.ts";
import { asPricedMedia, asPricedTools, heldTools, mediaBuckets } from "./tool-units.ts";
import { isPartlyUnseen } from "./unseen.ts";

type InputLimits = Pick<Model, "contextTokens">;
type OutputLimits = Pick<Model, "maxOutputTokens" | "reserveOutputTokens" | "quirks">;

// What providers add to a request: a prompt of their own where it has tools.
const toolPromptTokens = 500;

/**
 * Input tokens that a call may need: a tenth more than its text weighs (see token-weights.ts), and its media by size
 * and pages. As much as the model reads where the request names content that it does not bring along, or that cannot be
 * measured. It is a hold, not a price.
 */
export function estimateInputTokens(envelope: Envelope, model: InputLimits): number {
  const { body } = envelope;
  const most = mostInput(envelope, model);
  const media = mediaTokens(body);
  if (media.isUnbounded || isPartlyUnseen(body)) return most;
  const text = Math.ceil(body.textTokens(most) * 1.1) + (body.has("tools") ? toolPromptTokens : 0);
  return Math.min(text + media.heldTokens + body.addresses * maxPictureTokens, most);
}

const mostInput = ({ texts = 1 }: Envelope, { contextTokens }: InputLimits): number => contextTokens * texts;

/** Input tokens charged when the provider's own count never came: what the text weighs, and its media. */
export function countInputTokens(envelope: Envelope, model: InputLimits): number {
  const { body } = envelope;
  const most = mostInput(envelope, model);
  const text = Math.ceil(body.textTokens(most));
  return Math.min(text + mediaTokens(body).tokens + body.addresses * usualPictureTokens, most);
}

/**
 * Output tokens to hold money for: the caller's cap, at most the model's, or the model's reserve default. A cap that
 * the upstream does not know is none.
 */
export function estimateOutputTokens(envelope: Envelope, model: OutputLimits): number {
  const { outputCap, isNewCap, choices, more } = envelope;
  const cap = isNewCap === true && model.quirks.has("max-tokens") ? undefined : outputCap;
  const own = cap ?? model.reserveOutputTokens;
  return Math.min(more ? longer(own, more, envelope) : own, model.maxOutputTokens) * choices;
}

/** The cap with what else a request allows for: all of a prediction may be rejected, and it is a part of the body. */
function longer(
  cap: number,
  { otherCap = 0, thinkingTokens = 0, hasPrediction }: MoreOutput,
  { body }: Envelope,
): number {
  const rejected = hasPrediction ? Math.ceil(body.textTokens(Number.MAX_SAFE_INTEGER) * 1.1) : 0;
  return Math.max(cap, otherCap) + thinkingTokens + rejected;
}

/** Nano-USD to hold. Output may turn out to be reasoning, so the dearer of the two prices counts. */
export function estimateNanos(envelope: Envelope, model: Model): bigint {
  const usage: Units = { ...envelope.units, ...heldTools(envelope, model.prices) };
  const inputTokens = estimateInputTokens(envelope, model);
  usage.inputTokens = BigInt(inputTokens);
  usage.outputTokens = BigInt(estimateOutputTokens(envelope, model));
  usage.requests = 1n;
  const prices = envelope.more ? dearerPrices(model.prices, envelope.more) : holdPrices(model.prices);
  return costNanos(usage, prices) + moreForMedia(envelope.body, inputTokens, prices);
}

const dearest = (prices: Units, buckets: readonly UsageBucket[]): bigint =>
  buckets.reduce((most, bucket) => ((prices[bucket] ?? 0n) > most ? (prices[bucket] ?? 0n) : most), 0n);

/** What media costs more than text, where the model has prices for its kinds: which kind it is, nobody can be sure. */
function moreForMedia(body: RequestBody, inputTokens: number, prices: Units): bigint {
  const { inputTokens: price = 0n } = prices;
  const more = dearest(prices, ["inputTokens", "audioInputTokens", "imageInputTokens"]) - price;
  // Most models have no such prices: their requests' media are measured once.
  if (more === 0n) return 0n;
  const { heldTokens } = mediaTokens(body);
  return costNanos({ inputTokens: BigInt(Math.min(heldTokens, inputTokens)) }, { inputTokens: more });
}

const writes = {
  minutes: ["inputTokens", "cacheWrite5mTokens"],
  hours: ["inputTokens", "cacheWrite5mTokens", "cacheWrite1hTokens"],
} as const;

/** The prices of a request that asks for other output than text, or for its input to be written to a cache. */
function dearerPrices(prices: Units, { hasOtherOutput, writesCache }: MoreOutput): Units {
  const held = { ...holdPrices(prices) };
  if (hasOtherOutput) held.outputTokens = dearest(prices, outputBuckets);
  if (writesCache) held.inputTokens = dearest(prices, writes[writesCache]);
  return held;
}

const holdPricesOf = new WeakMap<Units, Units>();

function holdPrices(prices: Units): Units {
  let found = holdPricesOf.get(prices);
  if (!found) {
    const { outputTokens = 0n, reasoningTokens = 0n } = prices;
    found = { ...prices, outputTokens: outputTokens > reasoningTokens ? outputTokens : reasoningTokens };
    holdPricesOf.set(prices, found);
  }
  return found;
}

/** The units that a call is charged for, and all that are known of it, priced or not. */
export type MeterReading = { usage: Units; measured: Units; source: UsageSource };

/** All input of a call, in tokens, however it was read. */
export const inputOf = (usage: Units): bigint => sumOf(usage, inputBuckets);

function counted(tally: Tally, { inputTokens, units, leastMediaMs = 0n, triesPerChoice = 1 }: RequestFacts): Units {
  const known: Units = { inputTokens: BigInt(inputTokens), ...units, ...tally.counted, ...tally.inputUsage };
  if (known.mediaMs !== undefined && known.mediaMs < leastMediaMs) known.mediaMs = leastMediaMs;
  known.outputTokens = BigInt(Math.ceil(tally.contentTokens * triesPerChoice));
  const { usage } = tally;
  // What the provider told may be in units that the model is not priced by, and all of it 0.
  for (const name in usage) {
    const found = usage[name as UsageBucket] ?? 0n;
    if (found > 0n) known[name as UsageBucket] = found;
  }
  known.requests = 1n;
  return known;
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
export function priced(usage: Units, prices: Units): Units {
  const kept = pricedOnly(asPricedTools(usage, prices), prices);
  for (const _ in kept) return kept;
  return usage;
}

/** Whether any unit was used that the prices speak of. */
function hasPricedUse(usage: Units, prices: Units): boolean {
  for (const name in usage) {
    const bucket = name as UsageBucket;
    if (prices[bucket] !== undefined && (usage[bucket] ?? 0n) > 0n) return true;
  }
  return false;
}

/** What the provider tells, and beside it what only the request and the answer can tell, such as a number of images. */
function told(tally: Tally, { units: { images, characters } }: RequestFacts): Units {
  const known: Units = {};
  if (images !== undefined) known.images = images;
  if (characters !== undefined) known.characters = characters;
  Object.assign(known, tally.counted, tally.usage);
  // What passed behind the counts is not among them.
  for (const bucket of mediaBuckets) {
    const passed = tally.counted[bucket];
    if (passed !== undefined) known[bucket] = passed + (tally.usage?.[bucket] ?? 0n);
  }
  known.requests = 1n;
  return known;
}

/** Whether the provider told anything in units that the prices speak of; 0 is told, too, where it made something. */
function tellsPriced({ usage, hasContent }: Tally, prices: Units): boolean {
  if (!usage) return false;
  if (!hasContent) return hasPricedUse(usage, prices);
  for (const name in usage) if (prices[name as UsageBucket] !== undefined) return true;
  return false;
}

/** Whether content came behind the last counts, so that they tell of a part of the answer only. */
const areLowerBounds = ({ runningAt, contentTokens }: Tally): boolean =>
  runningAt !== undefined && contentTokens > runningAt;

type RaisedUsage = { usage: Units; isInputKnown: boolean };

/** Lower bounds raised to what was sent; undefined where none of them is below that. */
function raise(tally: Tally, requested: RequestFacts): RaisedUsage | undefined {
  const usage = told(tally, requested);
  // Nobody asks in one token: servers send it for clients that cannot do with 0.
  const isInputKnown = inputOf(usage) > 1n;
  const missing = BigInt(Math.ceil(tally.contentTokens)) - outputOf(usage);
  if (isInputKnown && missing <= 0n) return undefined;
  if (!isInputKnown) usage.inputTokens = BigInt(requested.inputTokens);
  if (missing > 0n) usage.outputTokens = (usage.outputTokens ?? 0n) + missing;
  return { usage, isInputKnown };
}

/** The tally as it counts for money: of some providers it is known that they tell too little. */
export function countedTally(tally: Tally, quirks?: ReadonlySet<Quirk>): Tally {
  return quirks?.has("untrusted-counts") ? { ...tally, runningAt: -1 } : tally;
}

/** What a whole answer is charged for, estimated or not, for its caller to be shown the same; undefined: nothing. */
export function usageOf(tally: Tally, requested: RequestFacts): Units | undefined {
  if (!tally.usage) return tally.hasContent ? counted(tally, requested) : undefined;
  const raised = areLowerBounds(tally) ? raise(tally, requested) : undefined;
  return raised ? raised.usage : told(tally, requested);
}

/** What a call is charged for, by how it ended: measured as the row of the outcomes says that fits it. */
export function meterCall(tally: Tally, ending: Ending, requested: RequestFacts, prices: Units): MeterReading {
  const isTold = tellsPriced(tally, prices);
  const raised = isTold && areLowerBounds(tally) ? raise(tally, requested) : undefined;
  const source = sourceOf({
    ending,
    hasContent: tally.hasContent,
    hasCounts: isTold && !raised,
    hasInputCount: raised ? raised.isInputKnown : tally.inputUsage !== undefined,
  });
  if (source === UsageSource.NONE) return { usage: {}, measured: tally.usage ?? tally.inputUsage ?? {}, source };
  const uncounted = raised ? raised.usage : asPricedMedia(counted(tally, requested), prices);
  const measured = source === UsageSource.PROVIDER ? told(tally, requested) : uncounted;
  return { usage: priced(measured, prices), measured, source };
}

// Asked for with each piece of a stream, and always the same.
const inputCosts = new WeakMap<Units, { prices: Units; nanos: number }>();

function inputCostNanos(inputUsage: Units, model: Model): number {
  const { prices } = model;
  let known = inputCosts.get(inputUsage);
  if (known?.prices !== prices) {
    const nanos = Number(costNanos(possibleUnits(inputUsage, model), prices));
    inputCosts.set(inputUsage, (known = { prices, nanos }));
  }
  return known.nanos;
}

/** What a session's response reads beside text. */
function heardCostNanos(
  { audioInputTokens, imageInputTokens = 0n, cacheReadTokens = 0n }: Units,
  model: Model,
): number {
  if (audioInputTokens === undefined) return 0;
  return Number(
    costNanos(pricedOnly({ audioInputTokens, imageInputTokens, cacheReadTokens }, model.prices), model.prices),
  );
}

/** What was said and drawn, and how long a session has taken. */
function countedCostNanos({ counted: units }: Tally, { prices }: Model): number {
  const { audioOutputTokens = 0n, imageOutputTokens = 0n, mediaMs = 0n } = units;
  if (audioOutputTokens + imageOutputTokens + mediaMs === 0n) return 0;
  const priced = asPricedMedia({ audioOutputTokens, imageOutputTokens, mediaMs }, prices);
  return Number(costNanos(pricedOnly(priced, prices), prices));
}

/**
 * Nano-USD that a running stream has cost so far, as a number: it only steers holds and checkpoints, so a float's
 * rounding does no harm here.
 */
export function runningCostNanos(
  tally: Tally,
  model: Model,
  { inputTokens, units }: Pick<RequestFacts, "inputTokens" | "units">,
): number {
  const { inputTokens: inputPrice = 0n, outputTokens: outputPrice = 0n, reasoningTokens = 0n } = model.prices;
  const dearest = Number(outputPrice > reasoningTokens ? outputPrice : reasoningTokens);
  const input = tally.inputUsage
    ? inputCostNanos(tally.inputUsage, model)
    : (inputTokens * Number(inputPrice)) / 1_000_000 + heardCostNanos(units, model);
  return input + (tally.contentTokens * dearest) / 1_000_000 + countedCostNanos(tally, model);
}
