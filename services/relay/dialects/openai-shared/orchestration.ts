import type { Units } from "#shared/money/pricing.ts";
import { addUnits, countOf, member } from "../dialect.ts";

/** What models behind a model have read and written, and how many tokens that is. */
export type Orchestration = { units: Units; tokens: bigint };

/**
 * What Sakana's models had other models do, as details of an input and an output that do not hold it. It is billed as
 * both are (https://console.sakana.ai/pricing).
 */
export function readOrchestration(inputDetails: unknown, outputDetails: unknown): Orchestration | undefined {
  const input = countOf(member(inputDetails, "orchestration_input_tokens"));
  const outputTokens = countOf(member(outputDetails, "orchestration_output_tokens"));
  if (input === 0n && outputTokens === 0n) return undefined;
  const cached = countOf(member(inputDetails, "orchestration_input_cached_tokens"));
  const cacheReadTokens = cached < input ? cached : input;
  const units = { inputTokens: input - cacheReadTokens, cacheReadTokens, outputTokens };
  return { units, tokens: input + outputTokens };
}

/** Counts without it, and what it adds. */
export function withOrchestration(counts: Units, orchestration: Orchestration | undefined): Units {
  if (orchestration) addUnits(counts, orchestration.units);
  return counts;
}

/** What a total of all tokens, of which `seen` are told otherwise, lacks of it: the provider means it to hold all. */
export const lackingOf = (orchestration: Orchestration | undefined, total: bigint, seen: bigint): bigint =>
  orchestration && total < seen + orchestration.tokens ? orchestration.tokens : 0n;
