import { emptyTally, estimateTokens, member, stringOf, takeRunning, totalOf, type Tally } from "../dialect.ts";
import { readServiceTier, readUsage } from "./usage.ts";

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

/** Queries of Google's search, by which it bills; of a stream the last word is the whole. */
function countSearches(candidates: readonly unknown[], { counted }: Tally): void {
  let searches = 0n;
  for (const candidate of candidates) {
    const queries = member(member(candidate, "groundingMetadata"), "webSearchQueries");
    if (Array.isArray(queries)) searches += BigInt(queries.length);
  }
  if (searches > (counted.webSearches ?? 0n)) counted.webSearches = searches;
}

/** Adds what a chunk, or a whole answer, carries to the tally. Its counts are those of the answer so far. */
export function countAnswer(answer: unknown, tally: Tally): void {
  const told = member(answer, "candidates");
  const candidates: unknown[] = Array.isArray(told) ? told : [];
  countSearches(candidates, tally);
  for (const candidate of candidates) {
    const parts = member(member(candidate, "content"), "parts");
    for (const part of Array.isArray(parts) ? parts : []) countPart(part, tally);
  }
  const usage = readUsage(member(answer, "usageMetadata"));
  if (usage) takeRunning(usage, tally);
  tally.toldTokens = totalOf(member(answer, "usageMetadata"), "totalTokenCount") ?? tally.toldTokens;
  tally.serviceTier = readServiceTier(member(answer, "usageMetadata")) ?? tally.serviceTier;
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
  tally.isEnding = true;
  countAnswer(body, tally);
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
