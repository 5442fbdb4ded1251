import type { Units } from "#shared/money/pricing.ts";
import type { ToldUsage } from "../answer.ts";
import {
  addUnits,
  countOf,
  excess,
  lacksAny,
  member,
  readCounts,
  stringOf,
  takeParts,
  tellsCounts,
  type ModelPart,
} from "../dialect.ts";

const larger = (one: bigint, other: bigint): bigint => (one > other ? one : other);

/**
 * The tokens of one run of a model, in disjoint buckets. input_tokens is already without cache reads and writes. The
 * 5 m and 1 h parts of cache writes may cover less than the total, so the 5 m bucket is the total less the 1 h part.
 */
function readTokens(usage: unknown): Units {
  const written = countOf(member(usage, "cache_creation_input_tokens"));
  const parts = member(usage, "cache_creation");
  const written1h = countOf(member(parts, "ephemeral_1h_input_tokens"));
  const written5m = countOf(member(parts, "ephemeral_5m_input_tokens"));
  return {
    inputTokens: countOf(member(usage, "input_tokens")),
    cacheReadTokens: countOf(member(usage, "cache_read_input_tokens")),
    cacheWrite5mTokens: larger(written - written1h, written5m),
    cacheWrite1hTokens: written1h,
    outputTokens: countOf(member(usage, "output_tokens")),
  };
}

const sumOf = (units: Units): bigint => Object.values(units).reduce((sum, count) => sum + count, 0n);

function runsOf(usage: unknown): unknown[] {
  const runs = member(usage, "iterations");
  return Array.isArray(runs) ? runs : [];
}

/**
 * An answer's compactions, advisers and turns with server tools are runs of their own; the top level has the last. Runs
 * tell best how long what they wrote is kept, and where they do not, the top level does of what it covers.
 */
function readAllTokens(usage: unknown): Units {
  const last = readTokens(usage);
  const all: Units = {};
  for (const run of runsOf(usage)) addUnits(all, readTokens(run));
  if (sumOf(all) === 0n || sumOf(all) < sumOf(last)) return last;
  const { cacheWrite5mTokens: short = 0n, cacheWrite1hTokens: long = 0n } = all;
  const untold = excess(last.cacheWrite1hTokens ?? 0n, long);
  const moved = untold < short ? untold : short;
  return { ...all, cacheWrite5mTokens: short - moved, cacheWrite1hTokens: long + moved };
}

function readTools(usage: unknown): Units {
  const tools = member(usage, "server_tool_use");
  if (typeof tools !== "object" || tools === null) return {};
  return {
    webSearches: countOf(member(tools, "web_search_requests")),
    webFetches: countOf(member(tools, "web_fetch_requests")),
  };
}

/** Reads `usage` of a message into disjoint buckets: all runs that it took, and the tools that the provider ran. */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (!tellsCounts(usage)) return undefined;
  const { outputTokens: output = 0n, ...input } = readAllTokens(usage);
  const { rest: outputTokens, reasoningTokens } = takeParts(output, {
    reasoningTokens: countOf(member(member(usage, "output_tokens_details"), "thinking_tokens")),
  });
  return { ...input, outputTokens, reasoningTokens, ...readTools(usage) };
}

const inputNames = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
const inputFields = new Set([...inputNames, "cache_creation"]);
const outputFields = new Set(["output_tokens", "output_tokens_details"]);

/** Whether counts tell any input. */
const tellsInput = (counts: unknown): boolean => inputNames.some((name) => countOf(member(counts, name)) > 0n);

/**
 * Adds what an event tells: later counts replace those before them one by one. Those of the output may be a
 * placeholder; and some compatible servers end with an input of 0 that they have told before
 * (https://github.com/envoyproxy/ai-gateway/pull/1631).
 */
export function addTold(counts: Record<string, unknown>, usage: object, hasOutput: boolean): void {
  const hasInput = tellsInput(usage) || !tellsInput(counts);
  for (const [name, count] of Object.entries(usage)) {
    const isTaken = (hasOutput || !outputFields.has(name)) && (hasInput || !inputFields.has(name));
    if (isTaken && count !== null && count !== undefined) counts[name] = count;
  }
}

const turnTypes = new Set<unknown>(["message", "fallback_message"]);
const noTokens = { input_tokens: 0, output_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };

/**
 * Counts without what the provider does not bill: turns of models that declined before any output, of which `freeTurns`
 * has those that another model took over from, in their order. Undefined: nothing is billed. A turn is a model's runs
 * one behind the other; the other runs, such as compactions, are no turns.
 */
export function withoutFree(
  counts: Record<string, unknown>,
  freeTurns: readonly boolean[],
  isLastFree: boolean,
): Record<string, unknown> | undefined {
  if (!isLastFree && !freeTurns.includes(true)) return counts;
  if (isLastFree && freeTurns.length === 0) return undefined;
  const areFree = [...freeTurns, isLastFree];
  let turn = -1;
  let model: unknown;
  const iterations = runsOf(counts).filter((run) => {
    if (!turnTypes.has(member(run, "type"))) return true;
    if (member(run, "model") !== model) turn += 1;
    model = member(run, "model");
    return !areFree[turn];
  });
  return { ...counts, ...(isLastFree && noTokens), iterations };
}

// An answer takes a handful of models; what a broken provider names beyond that is the called one's.
const mostModels = 16;

type Runs = { byModel: ModelPart[]; longestInputTokens: number | undefined };

/** What of `usage` is said to be of which model, and the input of the longest run, which decides prices by length. */
export function readRuns(usage: unknown): Runs {
  const byModel: ModelPart[] = [];
  let longest = -1n;
  for (const run of runsOf(usage)) {
    const { outputTokens, ...input } = readTokens(run);
    longest = larger(longest, sumOf(input));
    const model = stringOf(member(run, "model"));
    if (model === undefined) continue;
    let part = byModel.find((known) => known.model === model);
    if (!part && byModel.length === mostModels) continue;
    if (!part) byModel.push((part = { model, usage: {} }));
    addUnits(part.usage, { ...input, outputTokens: outputTokens ?? 0n });
  }
  return { byModel, longestInputTokens: longest < 0n ? undefined : Number(longest) };
}

/** The provider's count of the input alone; servers that do not know it yet send 0 or 1. No tool has run by then. */
function readInput(counts: object): Units | undefined {
  const told = { ...counts, output_tokens: undefined, output_tokens_details: undefined };
  const { webSearches: _, webFetches: __, ...input } = readUsage(told) ?? {};
  return sumOf(input) > 1n ? input : undefined;
}

/** What an answer's counts tell so far: of all of it once its output is among them, else of its input. */
export function readTold(counts: Record<string, unknown>): ToldUsage | undefined {
  if (counts["output_tokens"] === undefined) {
    const units = readInput(counts);
    return units && { scope: "input", units };
  }
  const units = readUsage(counts);
  if (!units) return undefined;
  const { byModel, longestInputTokens } = readRuns(counts);
  const isPartial = lacksAny(counts, ["input_tokens"]);
  return { scope: "answer", units, byModel: byModel.length > 0 ? byModel : undefined, longestInputTokens, isPartial };
}
