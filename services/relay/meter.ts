import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { costNanos, type Units } from "#shared/pricing.ts";
import type { Model } from "./catalog-models.ts";
import type { Envelope, Tally } from "./dialects/dialect.ts";

// A page or picture is about this many tokens at every provider, plus a share of what very large files hold.
const tokensPerMedia = 1_600;
const mediaBytesPerToken = 1_000;

function mediaTokens(mediaBytes: number[]): number {
  return mediaBytes.reduce((sum, bytes) => sum + tokensPerMedia + Math.ceil(bytes / mediaBytesPerToken), 0);
}

/**
 * Input tokens that a call may need, from its bytes: no tokenizer runs on the event loop. Three bytes to a token and a
 * tenth on top is above what providers count for nearly all text; it is a hold, not a price.
 */
export function estimateInputTokens({ scan }: Envelope, model: Model): number {
  const text = Math.ceil((scan.textBytes / 3) * 1.1);
  return Math.min(text + mediaTokens(scan.mediaBytes), model.contextTokens);
}

/** Input tokens charged when the provider's own count never came: four bytes to a token. */
export function countInputTokens({ scan }: Envelope, model: Model): number {
  return Math.min(Math.ceil(scan.textBytes / 4) + mediaTokens(scan.mediaBytes), model.contextTokens);
}

/** Output tokens to hold money for: the caller's cap, at most the model's, or the model's reserve default. */
export function estimateOutputTokens({ outputCap, choices }: Envelope, model: Model): number {
  const cap = Math.min(outputCap ?? model.reserveOutputTokens, model.maxOutputTokens);
  return cap * choices;
}

/** Nano-USD to hold. Output may turn out to be reasoning, so the dearer of the two prices counts. */
export function estimateNanos(envelope: Envelope, model: Model): bigint {
  const { inputTokens = 0n, outputTokens = 0n, reasoningTokens = 0n, requests = 0n } = model.prices;
  const outputPrice = outputTokens > reasoningTokens ? outputTokens : reasoningTokens;
  const input = BigInt(estimateInputTokens(envelope, model)) * inputTokens;
  const output = BigInt(estimateOutputTokens(envelope, model)) * outputPrice;
  return (input + output + requests + 999_999n) / 1_000_000n;
}

export type Metered = { usage: Units; source: UsageSource };

const nothing: Metered = { usage: {}, source: UsageSource.NONE };

function counted(tally: Tally, inputTokens: number): Metered {
  const outputTokens = BigInt(Math.ceil(tally.contentTokens));
  if (tally.inputUsage) {
    return { usage: { ...tally.inputUsage, outputTokens }, source: UsageSource.PROVIDER_INPUT };
  }
  return { usage: { inputTokens: BigInt(inputTokens), outputTokens }, source: UsageSource.ESTIMATED };
}

/**
 * What a call is charged for, by how it ended — the published rule for broken streams, in one place:
 *
 * | how it ended | charged |
 * |---|---|
 * | no content reached the caller | nothing |
 * | whole, provider told its counts | the provider's counts |
 * | whole, provider told none | input and output counted from what was sent, flagged as estimated |
 * | content passed, then cut by anyone, provider's final counts seen | the provider's counts |
 * | content passed, then cut by anyone, no final counts | input (the provider's count if it came) and output seen so
 * far |
 */
export function meterCall(tally: Tally, endCause: EndCause, inputTokens: number): Metered {
  const isWhole = endCause === EndCause.COMPLETE;
  if (!tally.hasContent && !(isWhole && tally.usage)) return nothing;
  if (tally.usage && Object.values(tally.usage).some((units) => units > 0n)) {
    return { usage: tally.usage, source: UsageSource.PROVIDER };
  }
  return counted(tally, inputTokens);
}

/**
 * Nano-USD that a running stream has cost so far, as a number: it only steers holds and checkpoints, so a float's
 * rounding does no harm here.
 */
export function runningCostNanos(tally: Tally, model: Model, inputTokens: number): number {
  const { inputTokens: inputPrice = 0n, outputTokens: outputPrice = 0n, reasoningTokens = 0n } = model.prices;
  const dearest = Number(outputPrice > reasoningTokens ? outputPrice : reasoningTokens);
  const input = tally.inputUsage
    ? Number(costNanos(tally.inputUsage, model.prices))
    : (inputTokens * Number(inputPrice)) / 1_000_000;
  return input + (tally.contentTokens * dearest) / 1_000_000;
}
