import type { Units } from "#shared/pricing.ts";
import { countOf, excess, member } from "./dialect.ts";

/**
 * Reads `usage` of a chat completion into disjoint buckets. prompt_tokens includes cached, written and audio tokens
 * and completion_tokens includes reasoning and audio, so each part is taken out once; parts that exceed their whole
 * (seen with cache writes) leave 0, never a negative count.
 */
export function readUsage(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const prompt = countOf(member(usage, "prompt_tokens"));
  const completion = countOf(member(usage, "completion_tokens"));
  const promptDetails = member(usage, "prompt_tokens_details");
  const completionDetails = member(usage, "completion_tokens_details");
  const cacheReadTokens = countOf(member(promptDetails, "cached_tokens"));
  const cacheWrite5mTokens = countOf(member(promptDetails, "cache_write_tokens"));
  const audioInputTokens = countOf(member(promptDetails, "audio_tokens"));
  const imageInputTokens = countOf(member(promptDetails, "image_tokens"));
  const reasoningTokens = countOf(member(completionDetails, "reasoning_tokens"));
  // Some compatible servers (xAI) count reasoning beside completion_tokens; only their total tells.
  const isOutside = prompt + completion + reasoningTokens === countOf(member(usage, "total_tokens"));
  const audioOutputTokens = countOf(member(completionDetails, "audio_tokens"));
  return {
    inputTokens: excess(prompt, cacheReadTokens + cacheWrite5mTokens + audioInputTokens + imageInputTokens),
    cacheReadTokens,
    cacheWrite5mTokens,
    audioInputTokens,
    imageInputTokens,
    outputTokens: excess(completion, isOutside ? audioOutputTokens : reasoningTokens + audioOutputTokens),
    reasoningTokens,
    audioOutputTokens,
  };
}
