import { countOf, emptyTally, estimateTokens, member, stringOf, type Tally } from "../dialect.ts";
import { readUsage } from "./usage.ts";

// Text under these names is output; `reasoning_content` and `reasoning` are what compatible servers add.
const textFields = ["content", "reasoning_content", "reasoning", "refusal"];

/** Adds what a message or a delta carries to the tally. */
export function countContent(message: unknown, tally: Tally): void {
  for (const name of textFields) {
    const text = stringOf(member(message, name));
    if (!text) continue;
    tally.hasContent = true;
    tally.contentTokens += estimateTokens(text);
  }
  const calls = member(message, "tool_calls");
  if (!Array.isArray(calls)) return;
  for (const call of calls) {
    tally.hasContent = true;
    const called = member(call, "function") ?? member(call, "custom");
    const text = [member(called, "name"), member(called, "arguments"), member(called, "input")];
    tally.contentTokens += text.reduce<number>((sum, part) => sum + estimateTokens(stringOf(part) ?? ""), 0);
  }
}

/** Reads a whole chat completion. */
export function readReply(body: unknown): Tally | undefined {
  const choices = member(body, "choices");
  if (!Array.isArray(choices)) return undefined;
  const tally = emptyTally();
  for (const choice of choices) countContent(member(choice, "message"), tally);
  tally.usage = readUsage(member(body, "usage"));
  tally.hasContent ||= countOf(member(member(body, "usage"), "completion_tokens")) > 0n;
  tally.modelServed = stringOf(member(body, "model"));
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
