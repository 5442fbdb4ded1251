import { emptyTally, estimateTokens, member, stringOf, totalOf, type Tally } from "../dialect.ts";
import { readUsage } from "./usage.ts";

// Tools that the provider runs and bills by the call.
const billedTools = new Set(["web_search_call", "file_search_call"]);

const textFields = ["text", "refusal", "arguments", "input", "name", "code", "encrypted_content"];

function textTokens(value: unknown): number {
  return textFields.reduce((sum, name) => sum + estimateTokens(stringOf(member(value, name)) ?? ""), 0);
}

/** Counts a call of a tool that the provider bills, once per finished item. */
export function countTool(item: unknown, tally: Tally): void {
  if (!billedTools.has(stringOf(member(item, "type")) ?? "")) return;
  tally.counted.toolCalls = (tally.counted.toolCalls ?? 0n) + 1n;
}

function countItem(item: unknown, tally: Tally): void {
  tally.contentTokens += textTokens(item);
  for (const list of [member(item, "content"), member(item, "summary")]) {
    if (Array.isArray(list)) for (const part of list) tally.contentTokens += textTokens(part);
  }
  countTool(item, tally);
}

/** Reads what a finished response tells of itself: its counts and its model. */
export function readFinal(response: unknown, tally: Tally): void {
  tally.usage = readUsage(member(response, "usage")) ?? tally.usage;
  tally.toldTokens = totalOf(member(response, "usage"), "total_tokens") ?? tally.toldTokens;
  tally.modelServed ||= stringOf(member(response, "model"));
  tally.serviceTier = stringOf(member(response, "service_tier")) ?? tally.serviceTier;
}

/** Reads a whole response or compaction. */
export function readReply(body: unknown): Tally | undefined {
  const output = member(body, "output");
  if (!Array.isArray(output)) return undefined;
  const tally = emptyTally();
  for (const item of output) countItem(item, tally);
  tally.hasContent = output.length > 0;
  readFinal(body, tally);
  tally.hasContent ||= Object.values(tally.usage ?? {}).some((units) => units > 0n);
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
