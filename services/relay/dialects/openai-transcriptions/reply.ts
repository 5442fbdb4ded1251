import type { Units } from "#shared/money/pricing.ts";
import { countOf, emptyTally, estimateTokens, excess, member, readCounts, stringOf, type Tally } from "../dialect.ts";

// What speech has, about.
const charactersPerSecond = 15;
const cueEnd = /-->\s*(?:(\d+):)?(\d+):(\d+)[.,](\d{3})/g;

const millisecondsOf = (seconds: unknown): bigint => {
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
function mediaMsOf(text: string): bigint {
  let lastMs = 0;
  for (const [, hours = "0", minutes, seconds, milliseconds] of text.matchAll(cueEnd)) {
    lastMs = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000 + Number(milliseconds);
  }
  return BigInt(
    lastMs > 0 && Number.isSafeInteger(lastMs) ? lastMs : Math.ceil((text.length * 1_000) / charactersPerSecond),
  );
}

/** Counts a transcript that has passed, for the case that the provider tells no counts. */
export function countText(text: string, tally: Tally): void {
  tally.hasContent ||= text !== "";
  tally.contentTokens += estimateTokens(text);
  tally.counted.mediaMs = (tally.counted.mediaMs ?? 0n) + mediaMsOf(text);
}

/** Reads a whole transcript, JSON or text. */
export function readReply(body: unknown): Tally | undefined {
  const text = stringOf(body) ?? stringOf(member(body, "text"));
  if (text === undefined) return undefined;
  const tally = emptyTally();
  countText(text, tally);
  const durationMs = millisecondsOf(member(body, "duration"));
  if (durationMs > 0n) tally.usage = { mediaMs: durationMs };
  tally.usage = readUsage(member(body, "usage")) ?? tally.usage;
  // Silence was worked on too.
  tally.hasContent = true;
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
