import type { ReplyUsage } from "../reply.ts";
import { writeServerTools } from "../server-tools.ts";
import type { ChatUsage } from "./wire.ts";

/**
 * `usage` as Format A counts: prompt_tokens holds cached, written and media tokens too, completion_tokens the
 * reasoning. Counts that a provider did not tell are 0.
 */
export function writeUsage(usage: ReplyUsage | undefined): ChatUsage {
  const count = (value: bigint | undefined): number => Number(value ?? 0n);
  const cached = count(usage?.cacheReadTokens);
  const written = count(usage?.cacheWrite5mTokens) + count(usage?.cacheWrite1hTokens);
  const [audioIn, imageIn] = [count(usage?.audioInputTokens), count(usage?.imageInputTokens)];
  const [audioOut, reasoning] = [count(usage?.audioOutputTokens), count(usage?.reasoningTokens)];
  const prompt = count(usage?.inputTokens) + cached + written + audioIn + imageIn;
  const completion = count(usage?.outputTokens) + reasoning + audioOut + count(usage?.imageOutputTokens);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: cached,
      cache_write_tokens: written,
      audio_tokens: audioIn,
      ...(imageIn > 0 && { image_tokens: imageIn }),
    },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: audioOut,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
    ...(usage && writeServerTools(usage)),
  };
}
