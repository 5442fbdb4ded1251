import type { CallerRequest } from "../conversion.ts";
import type { ReplyUsage } from "../reply.ts";
import { writeServerTools, type ServerToolUse } from "../server-tools.ts";

export type UsageField = {
  input_tokens: number;
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
  output_tokens: number;
  output_tokens_details: { thinking_tokens: number };
  server_tool_use: ServerToolUse["server_tool_use"] | null;
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
    server_tool_use: writeServerTools(usage).server_tool_use ?? null,
  };
}

/** How the writes of `cache_creation_input_tokens` divide by how long they last; only a whole message tells it. */
function writeCacheCreation(usage: ReplyUsage): Record<string, number> {
  return {
    ephemeral_5m_input_tokens: Number(usage.cacheWrite5mTokens ?? 0n),
    ephemeral_1h_input_tokens: Number(usage.cacheWrite1hTokens ?? 0n),
  };
}

// What other providers do not tell.
const untold = { inference_geo: null, service_tier: null, speed: null };

/** The usage of a whole message. */
export const writeWholeUsage = (usage: ReplyUsage): object => ({
  ...writeUsage(usage),
  cache_creation: writeCacheCreation(usage),
  ...untold,
});

/** The usage at the start of a stream, when nobody knows what was written to a cache. */
export const writeFirstUsage = (asked: CallerRequest): object => ({
  ...writeUsage(estimatedUsage(asked)),
  cache_creation: null,
  ...untold,
});

/** What a stream tells at its end where the provider told no counts: the estimate of its start stands. */
export const untoldUsage = {
  input_tokens: null,
  cache_creation_input_tokens: null,
  cache_read_input_tokens: null,
  output_tokens: 0,
  output_tokens_details: null,
  server_tool_use: null,
};

/** What stands for the counts before the provider tells them: input is never 0, as clients show it (trap 7). */
export function estimatedUsage({ inputTokens = 1 }: CallerRequest): ReplyUsage {
  return { inputTokens: BigInt(Math.max(1, Math.ceil(inputTokens))) };
}
