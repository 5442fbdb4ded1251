import type { Units } from "#shared/money/pricing.ts";
import type { Quirk } from "../conversation.ts";
import { countOf, excess, member, readCounts, takeParts, tellsCounts } from "../dialect.ts";

type CacheWrites = { cacheWrite5mTokens: bigint; cacheWrite1hTokens: bigint };

/**
 * What of an input was written to the cache, by how long it is kept there: 30 minutes unless the provider tells of 12
 * hours. The parts may cover less than the whole, and never count for more.
 */
export function readCacheWrites(inputDetails: unknown): CacheWrites {
  const parts = member(inputDetails, "cache_write_tokens_details");
  const short = countOf(member(parts, "ttl_30m_tokens"));
  const long = countOf(member(parts, "ttl_12h_tokens"));
  const whole = countOf(member(inputDetails, "cache_write_tokens")) || short + long;
  const cacheWrite1hTokens = long < whole ? long : whole;
  return { cacheWrite5mTokens: whole - cacheWrite1hTokens, cacheWrite1hTokens };
}

/** xAI bills its live search by the source. */
export function readSources(usage: unknown): Units {
  const searchSources = countOf(member(usage, "num_sources_used"));
  return searchSources > 0n ? { searchSources } : {};
}

/** How a model counts: whether its reasoning shows only in the total, where others would count no such tokens. */
export type Counting = { isReasoningInTotal?: boolean };

export const countingOf = (quirks?: ReadonlySet<Quirk>): Counting => ({
  isReasoningInTotal: quirks?.has("reasoning-in-total") ?? false,
});

/**
 * Reads `usage` of a chat completion into disjoint buckets. prompt_tokens includes cached, written and audio tokens
 * and completion_tokens includes reasoning and audio, so each part is taken out once; parts that exceed their whole
 * (seen with cache writes) are cut to it.
 */
export function readUsage(usage: unknown, counting: Counting = {}): Units | undefined {
  return readCounts((told) => readBuckets(told, counting), usage);
}

function readBuckets(usage: unknown, { isReasoningInTotal = false }: Counting): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const prompt = countOf(member(usage, "prompt_tokens"));
  const completion = countOf(member(usage, "completion_tokens"));
  const total = countOf(member(usage, "total_tokens"));
  const promptDetails = member(usage, "prompt_tokens_details");
  const completionDetails = member(usage, "completion_tokens_details");
  const told = countOf(member(completionDetails, "reasoning_tokens"));
  const beside = excess(total, prompt + completion);
  // Some compatible servers (xAI) count reasoning beside completion_tokens; only their total tells.
  const isOutside = beside > 0n && (beside === told || isReasoningInTotal);
  const reasoningTokens = isOutside && beside > told ? beside : told;
  const {
    rest: inputTokens,
    cacheWrite1hTokens,
    ...input
  } = takeParts(prompt, {
    cacheReadTokens: countOf(member(promptDetails, "cached_tokens")),
    ...readCacheWrites(promptDetails),
    audioInputTokens: countOf(member(promptDetails, "audio_tokens")),
    imageInputTokens: countOf(member(promptDetails, "image_tokens")),
  });
  const { rest: outputTokens, ...output } = takeParts(isOutside ? completion + beside : completion, {
    reasoningTokens,
    audioOutputTokens: countOf(member(completionDetails, "audio_tokens")),
  });
  const kept = cacheWrite1hTokens > 0n ? { cacheWrite1hTokens } : {};
  return { inputTokens, ...input, ...kept, outputTokens, ...output, ...readSources(usage) };
}

/** The same, of a usage that tells any count: some servers send an empty one. */
export function readToldUsage(usage: unknown, counting?: Counting): Units | undefined {
  return tellsCounts(usage) ? readUsage(usage, counting) : undefined;
}
