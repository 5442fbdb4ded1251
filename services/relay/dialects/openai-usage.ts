import type { Units } from "#shared/pricing.ts";
import { countOf, member, takeParts } from "./dialect.ts";

/**
 * Reads `usage` of a chat completion into disjoint buckets. prompt_tokens includes cached, written and audio tokens
 * and completion_tokens includes reasoning and audio, so each part is taken out once; parts that exceed their whole
 * (seen with cache writes) are cut to it.
 */
export function readUsage(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const prompt = countOf(member(usage, "prompt_tokens"));
  const completion = countOf(member(usage, "completion_tokens"));
  const promptDetails = member(usage, "prompt_tokens_details");
  const completionDetails = member(usage, "completion_tokens_details");
  const reasoningTokens = countOf(member(completionDetails, "reasoning_tokens"));
  // Some compatible servers (xAI) count reasoning beside completion_tokens; only their total tells.
  const isOutside = prompt + completion + reasoningTokens === countOf(member(usage, "total_tokens"));
  const { rest: inputTokens, ...input } = takeParts(prompt, {
    cacheReadTokens: countOf(member(promptDetails, "cached_tokens")),
    cacheWrite5mTokens: countOf(member(promptDetails, "cache_write_tokens")),
    audioInputTokens: countOf(member(promptDetails, "audio_tokens")),
    imageInputTokens: countOf(member(promptDetails, "image_tokens")),
  });
  const { rest: outputTokens, ...output } = takeParts(isOutside ? completion + reasoningTokens : completion, {
    reasoningTokens,
    audioOutputTokens: countOf(member(completionDetails, "audio_tokens")),
  });
  return { inputTokens, ...input, outputTokens, ...output };
}
