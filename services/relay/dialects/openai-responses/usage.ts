import type { Units } from "#shared/money/pricing.ts";
import { countOf, member, readCounts, takeParts, tellsCounts } from "../dialect.ts";
import { readCacheWrites, readSources } from "../openai-shared/usage.ts";

/**
 * Reads `usage` of a response into disjoint buckets. input_tokens includes cached and written tokens and output_tokens
 * includes reasoning, so each part is taken out once.
 */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (!tellsCounts(usage)) return undefined;
  const inputDetails = member(usage, "input_tokens_details");
  const outputDetails = member(usage, "output_tokens_details");
  const {
    rest: inputTokens,
    cacheWrite1hTokens,
    ...input
  } = takeParts(countOf(member(usage, "input_tokens")), {
    cacheReadTokens: countOf(member(inputDetails, "cached_tokens")),
    ...readCacheWrites(inputDetails),
  });
  const { rest: outputTokens, ...output } = takeParts(countOf(member(usage, "output_tokens")), {
    reasoningTokens: countOf(member(outputDetails, "reasoning_tokens")),
  });
  const kept = cacheWrite1hTokens > 0n ? { cacheWrite1hTokens } : {};
  return { inputTokens, ...input, ...kept, outputTokens, ...output, ...readSources(usage) };
}
