import type { Units } from "#shared/pricing.ts";
import { countOf, excess, member } from "../dialect.ts";

/**
 * Reads `usage` of a response into disjoint buckets. input_tokens includes cached and written tokens and output_tokens
 * includes reasoning, so each part is taken out once.
 */
export function readUsage(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const input = countOf(member(usage, "input_tokens"));
  const output = countOf(member(usage, "output_tokens"));
  const inputDetails = member(usage, "input_tokens_details");
  const cacheReadTokens = countOf(member(inputDetails, "cached_tokens"));
  const cacheWrite5mTokens = countOf(member(inputDetails, "cache_write_tokens"));
  const reasoningTokens = countOf(member(member(usage, "output_tokens_details"), "reasoning_tokens"));
  return {
    inputTokens: excess(input, cacheReadTokens + cacheWrite5mTokens),
    cacheReadTokens,
    cacheWrite5mTokens,
    outputTokens: excess(output, reasoningTokens),
    reasoningTokens,
  };
}
