import {
  countOf,
  emptyTally,
  estimateTokens,
  member,
  stringOf,
  totalOf,
  type Envelope,
  type Tally,
} from "../dialect.ts";
import type { Quirk } from "../conversation.ts";
import { countingOf, readToldUsage } from "../openai-shared/usage.ts";

function countText(text: unknown, tally: Tally): void {
  if (typeof text !== "string" || text === "") return;
  tally.hasContent = true;
  tally.contentTokens += estimateTokens(text);
}

/** Adds the text of a message or a delta that is output. */
function countTexts(message: Record<string, unknown>, tally: Tally): void {
  countText(message["content"], tally);
  // Compatible servers add their thinking as `reasoning_content` or `reasoning`; some send it under both names.
  countText(stringOf(message["reasoning_content"]) ?? message["reasoning"], tally);
  countText(message["refusal"], tally);
}

function countCall(called: unknown, tally: Tally): void {
  tally.hasContent = true;
  for (const name of ["name", "arguments", "input"]) {
    tally.contentTokens += estimateTokens(stringOf(member(called, name)) ?? "");
  }
}

/** Adds what a message or a delta carries to the tally. */
export function countContent(message: unknown, tally: Tally): void {
  if (typeof message !== "object" || message === null) return;
  const fields = message as Record<string, unknown>;
  countTexts(fields, tally);
  const { audio, function_call: oldCall, tool_calls: calls } = fields;
  if (audio) {
    countText(member(audio, "transcript"), tally);
    tally.hasContent ||= Boolean(member(audio, "data"));
  }
  if (oldCall) countCall(oldCall, tally);
  if (!Array.isArray(calls)) return;
  for (const call of calls) countCall(member(call, "function") ?? member(call, "custom"), tally);
}

/** Reads a whole chat completion. */
export function readReply(body: unknown, _envelope?: Envelope, quirks?: ReadonlySet<Quirk>): Tally | undefined {
  const choices = member(body, "choices");
  if (!Array.isArray(choices)) return undefined;
  const tally = emptyTally();
  for (const choice of choices) countContent(member(choice, "message"), tally);
  tally.usage = readToldUsage(member(body, "usage"), countingOf(quirks));
  tally.toldTokens = totalOf(member(body, "usage"), "total_tokens");
  tally.hasContent ||= countOf(member(member(body, "usage"), "completion_tokens")) > 0n;
  tally.modelServed = stringOf(member(body, "model"));
  tally.serviceTier = stringOf(member(body, "service_tier"));
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
