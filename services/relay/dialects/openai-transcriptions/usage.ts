import type { Units } from "#shared/money/pricing.ts";
import type { ToldUsage } from "../answer.ts";
import { countOf, excess, isGiven, member, readCounts } from "../dialect.ts";
import { toldOfMedia } from "../openai-shared/told-media.ts";
import { millisecondsOf } from "../openai-shared/usage.ts";

// What speech has, about.
const charactersPerSecond = 15;
const cueEnd = /-->\s*(?:(\d+):)?(\d+):(\d+)[.,](\d{3})/g;

/** Reads `usage`, which is of type tokens or of type duration; undefined where it tells neither. */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  // Mistral has a name of its own for the time, by which it bills, and tells tokens beside it.
  const mediaMs = millisecondsOf(member(usage, "seconds") ?? member(usage, "prompt_audio_seconds"));
  if (mediaMs > 0n) return { mediaMs };
  if (!isGiven(member(usage, "input_tokens")) && !isGiven(member(usage, "output_tokens"))) return undefined;
  const audioInputTokens = countOf(member(member(usage, "input_token_details"), "audio_tokens"));
  return {
    inputTokens: excess(countOf(member(usage, "input_tokens")), audioInputTokens),
    audioInputTokens,
    outputTokens: countOf(member(usage, "output_tokens")),
  };
}

/** What `usage` of a transcript tells: the time of the sound, or tokens. */
export function readTold(usage: unknown): ToldUsage | undefined {
  const units = readUsage(usage);
  if (units?.mediaMs !== undefined) return { scope: "answer", units, isLast: true };
  return toldOfMedia(usage, units, { input: "input_tokens", output: "output_tokens" });
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
