import type { CallerRequest } from "../conversion.ts";
import type { ReplyUsage } from "../reply.ts";
import { writeServerTools, type ServerToolUse } from "../server-tools.ts";

export type UsageField = ServerToolUse & {
  input_tokens: number;
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
  output_tokens: number;
  output_tokens_details: { thinking_tokens: number };
};

/**
 * Token counts as this dialect tells them: input without what was read from or written to a cache (trap 1), output
 * with thinking. Sound and images have no field of their own and count as what they are, input or output.
 */
export function writeUsage(usage: ReplyUsage): UsageField {
  const sum = (...buckets: (keyof ReplyUsage)[]): number =>
    Number(buckets.reduce((total, bucket) => total + (usage[bucket] ?? 0n), 0n));
  return {
    input_tokens: sum("inputTokens", "audioInputTokens", "imageInputTokens"),
    cache_creation_input_tokens: sum("cacheWrite5mTokens", "cacheWrite1hTokens"),
    cache_read_input_tokens: sum("cacheReadTokens"),
    output_tokens: sum("outputTokens", "reasoningTokens", "audioOutputTokens", "imageOutputTokens"),
    output_tokens_details: { thinking_tokens: sum("reasoningTokens") },
    ...writeServerTools(usage),
  };
}

/** How the writes of `cache_creation_input_tokens` divide by how long they last; only a whole message tells it. */
export function writeCacheCreation(usage: ReplyUsage): Record<string, number> {
  return {
    ephemeral_5m_input_tokens: Number(usage.cacheWrite5mTokens ?? 0n),
    ephemeral_1h_input_tokens: Number(usage.cacheWrite1hTokens ?? 0n),
  };
}

/** What stands for the counts before the provider tells them: input is never 0, as clients show it (trap 7). */
export function estimatedUsage({ inputTokens = 1 }: CallerRequest): ReplyUsage {
  return { inputTokens: BigInt(Math.max(1, Math.ceil(inputTokens))) };
}
