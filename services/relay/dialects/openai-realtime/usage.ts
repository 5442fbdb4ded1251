import type { Units } from "#shared/money/pricing.ts";
import { countOf, excess, member, readCounts, takeParts, tellsCounts } from "../dialect.ts";

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/**
 * What was cached of text, sound and pictures. Where the provider tells one number, it is taken from text first, then
 * from sound: the dearest kind is not charged as cached without its word.
 */
function cachedParts(details: unknown): { text: bigint; audio: bigint; image: bigint } {
  const whole = countOf(member(details, "cached_tokens"));
  const parts = member(details, "cached_tokens_details");
  const of = (kind: string): bigint => countOf(member(parts, kind));
  if (tellsCounts(parts)) return { text: of("text_tokens"), audio: of("audio_tokens"), image: of("image_tokens") };
  const text = least(whole, countOf(member(details, "text_tokens")));
  const audio = least(whole - text, countOf(member(details, "audio_tokens")));
  return { text, audio, image: whole - text - audio };
}

function readBuckets(usage: unknown): Units {
  const details = member(usage, "input_token_details");
  const made = member(usage, "output_token_details");
  const cached = cachedParts(details);
  const { rest: inputTokens, ...input } = takeParts(countOf(member(usage, "input_tokens")), {
    audioInputTokens: excess(countOf(member(details, "audio_tokens")), cached.audio),
    imageInputTokens: excess(countOf(member(details, "image_tokens")), cached.image),
    cacheReadTokens: cached.text + cached.audio + cached.image,
  });
  const { rest: outputTokens, ...output } = takeParts(countOf(member(usage, "output_tokens")), {
    audioOutputTokens: countOf(member(made, "audio_tokens")),
    reasoningTokens: countOf(member(made, "reasoning_tokens")),
  });
  return { inputTokens, ...input, outputTokens, ...output };
}

/**
 * Reads `usage` of a response of a session into disjoint buckets; undefined where it tells nothing. Cached tokens are
 * one bucket, of whatever kind they are.
 */
export const readUsage = (usage: unknown): Units | undefined =>
  tellsCounts(usage) ? readCounts(readBuckets, usage) : undefined;
