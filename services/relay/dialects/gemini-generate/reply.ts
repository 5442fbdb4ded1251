import { emptyTally, estimateTokens, member, stringOf, totalOf, type Tally } from "../dialect.ts";
import { readUsage } from "./usage.ts";

const otherContent = ["inlineData", "executableCode", "codeExecutionResult"];

function countPart(part: unknown, tally: Tally): void {
  const text = stringOf(member(part, "text")) ?? "";
  const call = member(part, "functionCall");
  tally.hasContent ||= text !== "" || Boolean(call) || otherContent.some((name) => Boolean(member(part, name)));
  tally.contentTokens += estimateTokens(text);
  if (!call) return;
  tally.contentTokens += estimateTokens(stringOf(member(call, "name")) ?? "");
  tally.contentTokens += estimateTokens(JSON.stringify(member(call, "args") ?? {}));
}

/** Adds what a chunk, or a whole answer, carries to the tally. Its counts are those of the answer so far. */
export function countAnswer(answer: unknown, tally: Tally): void {
  const candidates = member(answer, "candidates");
  for (const candidate of Array.isArray(candidates) ? candidates : []) {
    const parts = member(member(candidate, "content"), "parts");
    for (const part of Array.isArray(parts) ? parts : []) countPart(part, tally);
  }
  tally.usage = readUsage(member(answer, "usageMetadata")) ?? tally.usage;
  tally.toldTokens = totalOf(member(answer, "usageMetadata"), "totalTokenCount") ?? tally.toldTokens;
  tally.modelServed ||= stringOf(member(answer, "modelVersion"));
}

/** Why a prompt was refused; the answer has no candidates then. */
export function blockReasonOf(answer: unknown): string | undefined {
  return stringOf(member(member(answer, "promptFeedback"), "blockReason")) || undefined;
}

/** Reads a whole answer. */
export function readReply(body: unknown): Tally | undefined {
  if (!Array.isArray(member(body, "candidates")) && blockReasonOf(body) === undefined) return undefined;
  const tally = emptyTally();
  countAnswer(body, tally);
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
