import type { Units } from "#shared/money/pricing.ts";
import type { ToldUsage } from "../answer.ts";
import {
  addUnits,
  countOf,
  excess,
  lacksAny,
  member,
  noCounts,
  readCounts,
  takeParts,
  tellsCounts,
  totalOf,
  type ModelPart,
} from "../dialect.ts";
import { lackingOf, readOrchestration, withOrchestration, type Orchestration } from "../openai-shared/orchestration.ts";
import { svgTokens, withSvgs } from "../openai-shared/svg.ts";
import { readCacheWrites, readTools, wholeInput } from "../openai-shared/usage.ts";
import { readToolUsage, type ToolUsage } from "./tools.ts";

/**
 * Reads `usage` of a response into disjoint buckets. input_tokens includes cached and written tokens and output_tokens
 * includes reasoning, so each part is taken out once.
 */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (!tellsCounts(usage)) return undefined;
  const inputDetails = member(usage, "input_tokens_details");
  const cached = countOf(member(inputDetails, "cached_tokens"));
  const outputDetails = member(usage, "output_tokens_details");
  const [told, made] = [countOf(member(usage, "input_tokens")), countOf(member(usage, "output_tokens"))];
  const parts = {
    // Perplexity has Anthropic's name for it.
    cacheReadTokens: cached || countOf(member(inputDetails, "cache_read_input_tokens")),
    ...readWrites(usage, inputDetails),
  };
  const orchestration = orchestrationOf(usage);
  const beside = excess(countOf(member(usage, "total_tokens")), told + made + (orchestration?.tokens ?? 0n));
  const { rest: inputTokens, cacheWrite1hTokens, ...input } = takeParts(wholeInput(told, parts, beside), parts);
  const { rest: outputTokens, ...output } = takeParts(made, {
    reasoningTokens: countOf(member(outputDetails, "reasoning_tokens")),
  });
  const kept = cacheWrite1hTokens > 0n ? { cacheWrite1hTokens } : {};
  return withOrchestration(
    { inputTokens, ...input, ...kept, outputTokens, ...output, ...readTools(usage) },
    orchestration,
  );
}

const orchestrationOf = (usage: unknown): Orchestration | undefined =>
  readOrchestration(member(usage, "input_tokens_details"), member(usage, "output_tokens_details"));

/** The provider's own total of the model's tokens, with what it bills beside it. */
function readTotal(usage: unknown): bigint | undefined {
  const total = totalOf(usage, "total_tokens");
  if (total === undefined) return undefined;
  const seen = countOf(member(usage, "input_tokens")) + countOf(member(usage, "output_tokens"));
  return total + lackingOf(orchestrationOf(usage), total, seen);
}

/** What was written to the cache; DashScope tells it apart, in a list of what it bills. */
function readWrites(usage: unknown, inputDetails: unknown): ReturnType<typeof readCacheWrites> {
  const billed = member(usage, "x_details");
  if (!Array.isArray(billed)) return readCacheWrites(inputDetails);
  const written = { cacheWrite5mTokens: 0n, cacheWrite1hTokens: 0n };
  for (const entry of billed) addUnits(written, readCacheWrites(member(entry, "prompt_tokens_details")));
  return written;
}

/** What was told of the model's tokens, and beside it of the tools. */
function withTools(usage: Units, { units }: ToolUsage): Units {
  const { inputTokens = 0n, outputTokens = 0n, ...others } = units;
  return {
    ...usage,
    ...others,
    inputTokens: (usage.inputTokens ?? 0n) + inputTokens,
    outputTokens: (usage.outputTokens ?? 0n) + outputTokens,
  };
}

const wholes = ["input_tokens", "output_tokens"];

/** The counts of a finished response, of which other models drew parts. */
export function readFinal(response: unknown, drawings: ModelPart[]): ToldUsage | undefined {
  const told = member(response, "usage");
  const usage = readUsage(told);
  if (!usage) return undefined;
  const tools = readToolUsage(response);
  const total = readTotal(told);
  return {
    scope: "answer",
    units: usage === noCounts ? usage : withSvgs(withTools(usage, tools), drawings),
    total: total === undefined ? undefined : total + tools.tokens + svgTokens(drawings),
    isLast: true,
    isPartial: lacksAny(told, wholes),
    byModel: drawings.length > 0 ? drawings : undefined,
  };
}
