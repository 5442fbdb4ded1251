import { countOf, emptyTally, estimateTokens, member, stringOf, totalOf, type Tally } from "../dialect.ts";
import { readUsage } from "../openai-usage.ts";

/** Text of a message or a delta that is output. */
function textsOf(message: unknown): unknown[] {
  // Compatible servers add their thinking as `reasoning_content` or `reasoning`; some send it under both names.
  const reasoning = stringOf(member(message, "reasoning_content")) ?? member(message, "reasoning");
  return [
    member(message, "content"),
    reasoning,
    member(message, "refusal"),
    member(member(message, "audio"), "transcript"),
  ];
}

function countCall(called: unknown, tally: Tally): void {
  tally.hasContent = true;
  for (const name of ["name", "arguments", "input"]) {
    tally.contentTokens += estimateTokens(stringOf(member(called, name)) ?? "");
  }
}

/** Adds what a message or a delta carries to the tally. */
export function countContent(message: unknown, tally: Tally): void {
  for (const text of textsOf(message)) {
    if (typeof text !== "string" || text === "") continue;
    tally.hasContent = true;
    tally.contentTokens += estimateTokens(text);
  }
  tally.hasContent ||= Boolean(member(member(message, "audio"), "data"));
  const oldCall = member(message, "function_call");
  if (oldCall) countCall(oldCall, tally);
  const calls = member(message, "tool_calls");
  if (!Array.isArray(calls)) return;
  for (const call of calls) countCall(member(call, "function") ?? member(call, "custom"), tally);
}

/** Reads a whole chat completion. */
export function readReply(body: unknown): Tally | undefined {
  const choices = member(body, "choices");
  if (!Array.isArray(choices)) return undefined;
  const tally = emptyTally();
  for (const choice of choices) countContent(member(choice, "message"), tally);
  tally.usage = readUsage(member(body, "usage"));
  tally.toldTokens = totalOf(member(body, "usage"), "total_tokens");
  tally.hasContent ||= countOf(member(member(body, "usage"), "completion_tokens")) > 0n;
  tally.modelServed = stringOf(member(body, "model"));
  tally.serviceTier = stringOf(member(body, "service_tier"));
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
