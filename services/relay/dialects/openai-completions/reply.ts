import { emptyTally, estimateTokens, member, stringOf, totalOf, type Tally } from "../dialect.ts";
import { readToldUsage } from "../openai-shared/usage.ts";

/** Adds the text of a choice, whole or a piece of a stream. */
export function countChoice(choice: unknown, tally: Tally): void {
  const text = stringOf(member(choice, "text")) ?? "";
  tally.hasContent ||= text !== "";
  tally.contentTokens += estimateTokens(text);
}

/** Reads a whole text completion. */
export function readReply(body: unknown): Tally | undefined {
  const choices = member(body, "choices");
  if (!Array.isArray(choices)) return undefined;
  const tally = emptyTally();
  for (const choice of choices) countChoice(choice, tally);
  tally.usage = readToldUsage(member(body, "usage"));
  tally.toldTokens = totalOf(member(body, "usage"), "total_tokens");
  tally.hasContent ||= (tally.usage?.outputTokens ?? 0n) > 0n;
  tally.modelServed = stringOf(member(body, "model"));
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
