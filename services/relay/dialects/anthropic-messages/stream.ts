import { estimateTokens, member, stringOf, type EventVerdict, type StreamTap, type Tally } from "../dialect.ts";
import type { Units } from "#shared/money/pricing.ts";
import type { StreamEvent } from "../sse.ts";
import { countContent } from "./reply.ts";
import { readUsage, takeUsage } from "./usage.ts";

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

const toolBuckets = new Map<unknown, "webSearches" | "webFetches">([
  ["web_search", "webSearches"],
  ["web_fetch", "webFetches"],
]);

/** Counts a tool that the provider runs, for the case that its own counts never come. */
function countTool(block: unknown, { counted }: Tally): void {
  const bucket = toolBuckets.get(member(block, "name"));
  if (member(block, "type") !== "server_tool_use" || !bucket) return;
  counted[bucket] = (counted[bucket] ?? 0n) + 1n;
}

function withoutNulls(usage: unknown): Record<string, unknown> {
  if (typeof usage !== "object" || usage === null) return {};
  return Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== null));
}

/** The provider's count of the input alone; servers that do not know it yet send 0 or 1. No tool has run by then. */
function inputUsageOf(counts: object): Units | undefined {
  const { webSearches: _, webFetches: __, ...input } = readUsage(counts) ?? {};
  return Object.values(input).reduce((sum, units) => sum + units, 0n) > 1n ? input : undefined;
}

/** What message_start tells; the counts that message_delta adds to. */
function readStart(message: unknown, tally: Tally): Record<string, unknown> {
  const told = withoutNulls(member(message, "usage"));
  const content = member(message, "content");
  if (Array.isArray(content)) countContent(content, tally);
  tally.modelServed ||= stringOf(member(message, "model"));
  tally.serviceTier = stringOf(told["service_tier"]) ?? tally.serviceTier;
  // The answer to a call of its own code comes whole in this event, and message_stop is the next.
  tally.hasFinish ||= Boolean(stringOf(member(message, "stop_reason")));
  if (tally.hasFinish) {
    tally.isEnding = true;
    takeUsage(told, tally);
    return told;
  }
  // Until then its output count is a placeholder that must never be settled on.
  const counts = { ...told, output_tokens: undefined, output_tokens_details: undefined };
  tally.inputUsage = inputUsageOf(counts) ?? tally.inputUsage;
  return counts;
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
    else if (type === "content_block_start") {
      const block = member(parsed, "content_block");
      countPart(block, tally);
      countTool(block, tally);
    } else if (type === "message_start") counts = readStart(member(parsed, "message"), tally);
    else if (type === "message_delta") {
      // Its counts are cumulative and replace those of message_start one by one; old models repeat the output only.
      counts = { ...counts, ...withoutNulls(member(parsed, "usage")) };
      tally.hasFinish ||= Boolean(stringOf(member(member(parsed, "delta"), "stop_reason")));
      tally.isEnding = tally.hasFinish;
      if (counts["output_tokens"] !== undefined) takeUsage(counts, tally);
    } else if (type === "message_stop") tally.isComplete = tally.hasFinish;
    else if (type === "error") {
      tally.isFailed = true;
      return "end";
    }
    return "pass";
  };
  return { read, end: () => "", createAlike: createTap };
}
