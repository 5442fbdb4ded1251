import { emptyTally, estimateTokens, member, stringOf, type Tally } from "../dialect.ts";
import { readUsage } from "./usage.ts";

/** Reads a whole message. */
export function readReply(body: unknown): Tally | undefined {
  const content = member(body, "content");
  if (!Array.isArray(content)) return undefined;
  const tally = emptyTally();
  tally.usage = readUsage(member(body, "usage"));
  tally.hasContent = content.length > 0;
  for (const block of content) {
    const text = stringOf(member(block, "text")) ?? stringOf(member(block, "thinking"));
    tally.contentTokens += estimateTokens(text ?? JSON.stringify(member(block, "input") ?? ""));
  }
  tally.modelServed = stringOf(member(body, "model"));
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
