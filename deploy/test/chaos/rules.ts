import type { Truth } from "#fake-provider/truth.ts";
import type { CallLog } from "../e2e/caller.ts";
import { emittedPrice, priceOf } from "../e2e/checker.ts";
import { modelPrices, type Prices } from "../e2e/load-models.ts";

const checkpointStepNanos = 10_000_000n;
const tardyMs = 1_000;
// A word of the load with its space, and what the relay takes for a token where no provider counts.
const bytesPerWord = 3;
const bytesPerToken = 4;
const noUnits = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWrite5mTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};
type Claim = NonNullable<Truth["claim"]>;

function pricesOf(model: string): Prices {
  const prices = modelPrices[model];
  if (!prices) throw new Error(`${model} has no price`);
  return prices;
}

/**
 * Nano-USD that a call may be charged too little when its relay dies. README, "What a broken answer costs", says 5 s or
 * 0.01 USD. Held to more strictly here: what was emitted more than a second before is charged but for 0.01 USD; a
 * second, because a checkpoint travels in a batch. The relay counts by bytes, and what only the provider knows it tells
 * at the end, or never: both are errors of the estimate and come on top.
 */
export function lossBoundNanos(truth: Truth): bigint {
  const { model, tokensEmitted, behaviour, isStream } = truth;
  const { gapMs = 0 } = behaviour;
  const isAtOnce = !isStream || gapMs === 0;
  const recent = isAtOnce ? tokensEmitted : Math.ceil(tardyMs / gapMs) + 1;
  const counted = Math.floor((Math.max(0, tokensEmitted - recent) * bytesPerWord) / bytesPerToken);
  const known: Claim = { ...noUnits, outputTokens: counted };
  return checkpointStepNanos + emittedPrice(truth, pricesOf(model)) - priceOf(known, pricesOf(model));
}

// The most that a call of the mix claims, and what is held for it.
const dearestClaim: Claim = {
  inputTokens: 3_000,
  cacheReadTokens: 500,
  cacheWrite5mTokens: 100,
  cacheWrite1hTokens: 100,
  outputTokens: 200,
  reasoningTokens: 50,
};
const minHeld: Claim = { ...noUnits, outputTokens: 100 };

/**
 * Nano-USD by which an account may be below zero (money invariant I16): for each call that may be open at a time
 * 0.01 USD and the error of its estimate, which for a call of the mix is what its provider claims above what was held.
 */
export function overspendBoundNanos(callers: number): bigint {
  const dear = pricesOf("dear-model");
  const errorNanos = priceOf(dearestClaim, dear) - priceOf(minHeld, dear);
  return BigInt(callers) * (checkpointStepNanos + errorNanos);
}

export type Refusals = {
  /** Accounts that have money for all that they ask. */
  richIds: ReadonlySet<string>;
  /** Statuses that infrastructure may cause besides 503: those of an upstream that was cut off. */
  alsoAllowed?: readonly number[];
};

/**
 * Refusals that infrastructure must not cause, in words. API spec, error table: 401 and 403 are decisions on a key or
 * on money, so sound calls with money never see them, and a service that cannot decide says 503 with Retry-After.
 */
export function wrongRefusals(calls: readonly CallLog[], { richIds, alsoAllowed = [] }: Refusals): string[] {
  return calls.flatMap(({ plan, outcome, status = 0, retryAfter, reason }) => {
    if (!plan.isSound || outcome !== "error" || alsoAllowed.includes(status)) return [];
    if (status === 403 && !richIds.has(plan.accountId)) return [];
    if (status === 503 && Number(retryAfter) > 0) return [];
    return [`call ${plan.number}: ${status} with Retry-After ${retryAfter}: ${reason.slice(0, 200)}`];
  });
}
