import type { Units } from "#shared/money/pricing.ts";
import { countOf, excess, member, readCounts } from "../dialect.ts";

// What speech has, about.
const charactersPerSecond = 15;
const cueEnd = /-->\s*(?:(\d+):)?(\d+):(\d+)[.,](\d{3})/g;

export const millisecondsOf = (seconds: unknown): bigint => {
  const value = Math.ceil(Number(seconds) * 1_000);
  return Number.isSafeInteger(value) && value > 0 ? BigInt(value) : 0n;
};

/** Reads `usage`, which is of type tokens or of type duration. */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const mediaMs = millisecondsOf(member(usage, "seconds"));
  if (mediaMs > 0n) return { mediaMs };
  const audioInputTokens = countOf(member(member(usage, "input_token_details"), "audio_tokens"));
  return {
    inputTokens: excess(countOf(member(usage, "input_tokens")), audioInputTokens),
    audioInputTokens,
    outputTokens: countOf(member(usage, "output_tokens")),
  };
}

/** Milliseconds of sound that a text covers: its last cue's end (srt, vtt), else estimated from its length. */
export function mediaMsOf(text: string): bigint {
  let lastMs = 0;
  for (const [, hours = "0", minutes, seconds, milliseconds] of text.matchAll(cueEnd)) {
    lastMs = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000 + Number(milliseconds);
  }
  return BigInt(
    lastMs > 0 && Number.isSafeInteger(lastMs) ? lastMs : Math.ceil((text.length * 1_000) / charactersPerSecond),
  );
}
