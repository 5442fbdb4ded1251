import type { Units } from "#shared/money/pricing.ts";
import { emptyTally, estimateTokens, member, noCounts, stringOf, totalOf, type Tally } from "../dialect.ts";
import { svgTokens, withSvgs } from "../openai-shared/svg.ts";
import { countTool, readToolUsage, type ToolUsage } from "./tools.ts";
import { readUsage } from "./usage.ts";

const textFields = ["text", "refusal", "arguments", "input", "name", "code", "encrypted_content"];

function textTokens(value: unknown): number {
  return textFields.reduce((sum, name) => sum + estimateTokens(stringOf(member(value, name)) ?? ""), 0);
}

function countItem(item: unknown, tally: Tally): void {
  tally.contentTokens += textTokens(item);
  for (const list of [member(item, "content"), member(item, "summary")]) {
    if (Array.isArray(list)) for (const part of list) tally.contentTokens += textTokens(part);
  }
}

/** What was told of the model's tokens, and beside it of the tools. */
function readAllUsage(response: unknown, { units }: ToolUsage): Units | undefined {
  const usage = readUsage(member(response, "usage"));
  if (!usage || usage === noCounts) return usage;
  const { inputTokens = 0n, outputTokens = 0n, ...others } = units;
  return {
    ...usage,
    ...others,
    inputTokens: (usage.inputTokens ?? 0n) + inputTokens,
    outputTokens: (usage.outputTokens ?? 0n) + outputTokens,
  };
}

/** Reads what a finished response tells of itself: its counts and its model. */
export function readFinal(response: unknown, tally: Tally): void {
  const tools = readToolUsage(response);
  tally.usage = withSvgs(readAllUsage(response, tools), tally) ?? tally.usage;
  const total = totalOf(member(response, "usage"), "total_tokens");
  if (total !== undefined) tally.toldTokens = total + tools.tokens + svgTokens(tally);
  tally.modelServed ||= stringOf(member(response, "model"));
  tally.serviceTier = stringOf(member(response, "service_tier")) ?? tally.serviceTier;
}

/** Reads a whole response or compaction. */
export function readReply(body: unknown): Tally | undefined {
  const output = member(body, "output");
  if (!Array.isArray(output)) return undefined;
  const tally = emptyTally();
  const containers = new Set<string>();
  for (const item of output) {
    countItem(item, tally);
    countTool(item, tally, containers);
  }
  tally.hasContent = output.length > 0;
  readFinal(body, tally);
  tally.hasContent ||= Object.values(tally.usage ?? {}).some((units) => units > 0n);
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
