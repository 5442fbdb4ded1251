import {
  isUntouched,
  member,
  type Cleaner,
  type Envelope,
  type EventVerdict,
  type StreamTap,
  type Tally,
} from "../dialect.ts";
import type { StreamEvent } from "../sse.ts";
import { endingOf, indexOfCandidate } from "./candidates.ts";
import { readError } from "./error.ts";
import { blockReasonOf, countAnswer } from "./reply.ts";

/** An error as callers may see it; its very bytes when there is nothing to take out. */
function cleanEvent(chunk: unknown, clean: Cleaner): EventVerdict {
  const error = readError(chunk) ?? { message: "", type: undefined, code: undefined };
  const cleaned = clean(error);
  if (isUntouched(error, cleaned)) return "pass";
  const { message, type: status } = cleaned;
  return Buffer.from(`data: ${JSON.stringify({ error: { message, status } })}\n\n`);
}

/**
 * Watches a stream. There is no end mark: an answer is whole when the stream ends after each of its candidates said
 * why it ended, which the pump sees by `hasFinish`.
 */
export function createTap(_envelope: Envelope, clean: Cleaner): StreamTap {
  const seen = new Set<number>();
  const ended = new Set<number>();
  let isBlocked = false;
  const noteEndings = (chunk: unknown): void => {
    isBlocked ||= blockReasonOf(chunk) !== undefined;
    const candidates = member(chunk, "candidates");
    if (!Array.isArray(candidates)) return;
    candidates.forEach((candidate, position) => {
      const index = indexOfCandidate(candidate, position);
      if (index === undefined) return;
      seen.add(index);
      if (endingOf(candidate) !== undefined) ended.add(index);
    });
  };
  const read = ({ json: chunk }: StreamEvent, tally: Tally): EventVerdict => {
    if (member(Array.isArray(chunk) ? chunk[0] : chunk, "error")) {
      tally.isFailed = true;
      return cleanEvent(chunk, clean);
    }
    noteEndings(chunk);
    tally.hasFinish = isBlocked || (seen.size > 0 && ended.size === seen.size);
    tally.isEnding = tally.hasFinish;
    countAnswer(chunk, tally);
    return "pass";
  };
  return { read, end: () => "" };
}
