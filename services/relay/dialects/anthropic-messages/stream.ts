import { estimateTokens, member, stringOf, type EventVerdict, type StreamTap, type Tally } from "../dialect.ts";
import type { StreamEvent } from "../sse.ts";
import { readUsage } from "./usage.ts";

const textFields = ["text", "partial_json", "thinking"];

/** Counts a block as it starts, or a delta. Text that is still empty, as most blocks open, is no content yet. */
function countPart(part: unknown, tally: Tally): void {
  let [isText, isEmpty] = [false, true];
  for (const name of textFields) {
    const text = member(part, name);
    if (typeof text !== "string") continue;
    isText = true;
    isEmpty &&= text === "";
    tally.contentTokens += estimateTokens(text);
  }
  tally.hasContent ||= !isText || !isEmpty;
}

function withoutNulls(usage: unknown): Record<string, unknown> {
  if (typeof usage !== "object" || usage === null) return {};
  return Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== null));
}

/**
 * Watches a Messages stream. The answer is whole when message_stop passes after a stop_reason. An error event ends the
 * answer without reaching the caller (API spec, Streaming that stops partway: "No error arrives").
 */
export function createTap(): StreamTap {
  let counts: Record<string, unknown> = {};
  const read = ({ json: parsed }: StreamEvent, tally: Tally): EventVerdict => {
    const type = member(parsed, "type");
    if (type === "content_block_delta") countPart(member(parsed, "delta"), tally);
    else if (type === "content_block_start") countPart(member(parsed, "content_block"), tally);
    else if (type === "message_start") {
      const message = member(parsed, "message");
      // The output count of message_start is a placeholder that must never be settled on.
      counts = {
        ...withoutNulls(member(message, "usage")),
        output_tokens: undefined,
        output_tokens_details: undefined,
      };
      const input = readUsage(counts);
      // Servers that do not know it yet send 0.
      if (input && Object.values(input).some((units) => units > 0n)) tally.inputUsage = input;
      tally.modelServed ||= stringOf(member(message, "model"));
    } else if (type === "message_delta") {
      // Its counts are cumulative and replace those of message_start one by one; old models repeat the output only.
      counts = { ...counts, ...withoutNulls(member(parsed, "usage")) };
      if (counts["output_tokens"] !== undefined) tally.usage = readUsage(counts);
      tally.hasFinish ||= Boolean(stringOf(member(member(parsed, "delta"), "stop_reason")));
      tally.isEnding = tally.hasFinish;
    } else if (type === "message_stop") tally.isComplete = tally.hasFinish;
    else if (type === "error") {
      tally.isFailed = true;
      return "end";
    }
    return "pass";
  };
  return { read, end: () => "", createAlike: createTap };
}
