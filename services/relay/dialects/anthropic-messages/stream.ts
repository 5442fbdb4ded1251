import { estimateTokens, member, stringOf, type EventVerdict, type StreamTap, type Tally } from "../dialect.ts";
import { eventData, eventJson } from "../sse.ts";
import { readUsage } from "./usage.ts";

const deltaTexts = ["text", "partial_json", "thinking"];

function countDelta(delta: unknown, tally: Tally): void {
  tally.hasContent = true;
  for (const name of deltaTexts) tally.contentTokens += estimateTokens(stringOf(member(delta, name)) ?? "");
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
  return (event: Buffer, tally: Tally): EventVerdict => {
    const parsed = eventJson(eventData(event));
    const type = member(parsed, "type");
    if (type === "content_block_delta") countDelta(member(parsed, "delta"), tally);
    else if (type === "content_block_start") tally.hasContent = true;
    else if (type === "message_start") {
      const message = member(parsed, "message");
      counts = withoutNulls(member(message, "usage"));
      // The output count of message_start is a placeholder that must never be settled on.
      tally.inputUsage = readUsage({ ...counts, output_tokens: 0, output_tokens_details: null });
      tally.modelServed ||= stringOf(member(message, "model"));
    } else if (type === "message_delta") {
      // Its counts are cumulative and replace those of message_start one by one; old models repeat the output only.
      counts = { ...counts, ...withoutNulls(member(parsed, "usage")) };
      tally.usage = readUsage(counts);
      tally.hasFinish ||= stringOf(member(member(parsed, "delta"), "stop_reason")) !== undefined;
    } else if (type === "message_stop") tally.isComplete = tally.hasFinish;
    else if (type === "error") {
      tally.isFailed = true;
      return "end";
    }
    return "pass";
  };
}
