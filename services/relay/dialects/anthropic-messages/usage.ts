import type { Units } from "#shared/pricing.ts";
import { countOf, member, takeParts } from "../dialect.ts";

const larger = (one: bigint, other: bigint): bigint => (one > other ? one : other);

/**
 * Reads `usage` of a message into disjoint buckets. input_tokens is already without cache reads and writes. The 5 m
 * and 1 h parts of cache writes may cover less than the total, so the 5 m bucket is the total less the 1 h part.
 */
export function readUsage(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const written = countOf(member(usage, "cache_creation_input_tokens"));
  const parts = member(usage, "cache_creation");
  const written1h = countOf(member(parts, "ephemeral_1h_input_tokens"));
  const written5m = countOf(member(parts, "ephemeral_5m_input_tokens"));
  const { rest: outputTokens, reasoningTokens } = takeParts(countOf(member(usage, "output_tokens")), {
    reasoningTokens: countOf(member(member(usage, "output_tokens_details"), "thinking_tokens")),
  });
  return {
    inputTokens: countOf(member(usage, "input_tokens")),
    cacheReadTokens: countOf(member(usage, "cache_read_input_tokens")),
    cacheWrite5mTokens: larger(written - written1h, written5m),
    cacheWrite1hTokens: written1h,
    outputTokens,
    reasoningTokens,
  };
}
