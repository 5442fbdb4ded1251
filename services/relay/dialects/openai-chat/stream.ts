import { member, stringOf, type Envelope, type EventVerdict, type StreamTap, type Tally } from "../dialect.ts";
import { eventData, eventJson } from "../sse.ts";
import { countContent } from "./reply.ts";
import { readUsage } from "./usage.ts";

/** Reads a chunk into the tally; true for the chunk that holds nothing but the token counts. */
function readChunk(chunk: unknown, tally: Tally): boolean {
  const choices = member(chunk, "choices");
  if (Array.isArray(choices)) {
    for (const choice of choices) {
      countContent(member(choice, "delta"), tally);
      // Some servers send "" for "not yet".
      tally.hasFinish ||= Boolean(stringOf(member(choice, "finish_reason")));
    }
  }
  const usage = readUsage(member(chunk, "usage"));
  if (usage) tally.usage = usage;
  tally.modelServed ||= stringOf(member(chunk, "model"));
  return usage !== undefined && Array.isArray(choices) && choices.length === 0;
}

/**
 * Watches a chat stream. An answer is whole when a finish_reason has passed and `[DONE]` follows; usage may come
 * between the two. The usage chunk, which the relay asked for itself, is kept from a caller who did not ask for it.
 */
export function createTap({ wantsStreamUsage }: Envelope): StreamTap {
  return (event: Buffer, tally: Tally): EventVerdict => {
    const data = eventData(event);
    if (data === undefined) return "pass";
    if (data.startsWith("[DONE]")) {
      tally.isComplete = tally.hasFinish && !tally.isFailed;
      return "pass";
    }
    const chunk = eventJson(data);
    if (member(chunk, "error")) {
      tally.isFailed = true;
      return "pass";
    }
    return readChunk(chunk, tally) && !wantsStreamUsage ? "drop" : "pass";
  };
}
