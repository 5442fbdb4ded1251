import { emptyTally, estimateTokens, member, stringOf, type Tally } from "../dialect.ts";
import { takeUsage } from "./usage.ts";

/** Adds the blocks of a whole message. */
export function countContent(content: readonly unknown[], tally: Tally): void {
  tally.hasContent ||= content.length > 0;
  for (const block of content) {
    const text = stringOf(member(block, "text")) ?? stringOf(member(block, "thinking"));
    tally.contentTokens += estimateTokens(text ?? JSON.stringify(member(block, "input") ?? ""));
  }
}

/** Reads a whole message. */
export function readReply(body: unknown): Tally | undefined {
  const content = member(body, "content");
  if (!Array.isArray(content)) return undefined;
  const tally = emptyTally();
  tally.isEnding = true;
  takeUsage(member(body, "usage"), tally);
  countContent(content, tally);
  tally.modelServed = stringOf(member(body, "model"));
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
