import {
  member,
  stringOf,
  takeRunning,
  totalOf,
  type Cleaner,
  type Envelope,
  type EventVerdict,
  type StreamTap,
  type Tally,
} from "../dialect.ts";
import { cleanEvent } from "./error.ts";
import { readToldUsage, type Counting } from "./usage.ts";
import type { StreamEvent } from "../sse.ts";

/** Adds what one choice of a chunk carries. */
type ChoiceCounter = (choice: unknown, tally: Tally) => void;

/** How a dialect's chunks are read. */
type ChunkReading = { countChoice: ChoiceCounter; counting?: Counting };

/** What is followed through a stream: the choices that have ended, of how many. */
type Watched = ChunkReading & { ended: unknown[]; wanted: number };

/** Reads a chunk into the tally; true for the chunk that holds nothing but the token counts. */
function readChunk(chunk: unknown, tally: Tally, { countChoice, counting, ended, wanted }: Watched): boolean {
  const choices = member(chunk, "choices");
  if (Array.isArray(choices)) {
    for (const choice of choices) {
      countChoice(choice, tally);
      // Some servers send "" for "not yet".
      if (!stringOf(member(choice, "finish_reason"))) continue;
      tally.hasFinish = true;
      const index = member(choice, "index");
      if (!ended.includes(index)) ended.push(index);
      tally.isEnding = ended.length >= wanted;
    }
  }
  const usage = readToldUsage(member(chunk, "usage"), counting);
  if (usage) {
    takeRunning(usage, tally);
    tally.toldTokens = totalOf(member(chunk, "usage"), "total_tokens");
  }
  // Some send "" at first; it tells as little as none.
  tally.modelServed ??= stringOf(member(chunk, "model")) || undefined;
  tally.serviceTier ??= stringOf(member(chunk, "service_tier")) || undefined;
  return usage !== undefined && Array.isArray(choices) && choices.length === 0;
}

/**
 * Watches a stream of chunks with choices, as chat and the older completions send them. An answer is whole when a
 * finish_reason has passed and `[DONE]` follows; usage may come between the two. The usage chunk, which the relay asked
 * for itself, is kept from a caller who did not ask for it.
 */
export function createChunkTap(envelope: Envelope, clean: Cleaner, reading: ChunkReading): StreamTap {
  const { wantsStreamUsage, choices } = envelope;
  const watched: Watched = { ...reading, ended: [], wanted: choices };
  const read = ({ data, json: chunk }: StreamEvent, tally: Tally): EventVerdict => {
    if (data === undefined) return "pass";
    if (data.startsWith("[DONE]")) {
      tally.isComplete = tally.hasFinish && !tally.isFailed;
      return "pass";
    }
    if (member(chunk, "error")) {
      tally.isFailed = true;
      return cleanEvent(chunk, clean);
    }
    return readChunk(chunk, tally, watched) && !wantsStreamUsage ? "drop" : "pass";
  };
  // API spec, Streaming that stops partway: a cut chat stream ends with [DONE] and no finish_reason.
  const end = ({ isComplete, isFailed }: Tally): string => (isComplete || isFailed ? "" : "data: [DONE]\n\n");
  return { read, end, createAlike: () => createChunkTap(envelope, clean, reading) };
}
