import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { Quirk } from "../conversation.ts";
import { countOf, excess, lacksAny, member, readCounts, takeParts, tellsCounts, totalOf } from "../dialect.ts";
import { lackingOf, readOrchestration, withOrchestration, type Orchestration } from "./orchestration.ts";

type CacheWrites = { cacheWrite5mTokens: bigint; cacheWrite1hTokens: bigint };

type Path = readonly string[];

function countAt(usage: unknown, path: Path): bigint {
  let found = usage;
  for (const name of path) found = member(found, name);
  return countOf(found);
}

/** The first of these counts that tells anything: providers have different names for one and the same. */
function firstOf(usage: unknown, paths: readonly Path[]): bigint {
  for (const path of paths) {
    const count = countAt(usage, path);
    if (count > 0n) return count;
  }
  return 0n;
}

// OpenAI's names, then those of Anthropic's counts, as gateways to it and DashScope have them
// (https://www.alibabacloud.com/help/en/model-studio/context-cache).
const wholeWrites: readonly Path[] = [
  ["cache_write_tokens"],
  ["cache_creation_tokens"],
  ["cache_creation_input_tokens"],
];
const shortWrites: readonly Path[] = [
  ["cache_write_tokens_details", "ttl_30m_tokens"],
  ["cache_creation_token_details", "ephemeral_5m_input_tokens"],
  ["cache_creation_token_details", "ephemeral_30m_input_tokens"],
  ["cache_creation", "ephemeral_5m_input_tokens"],
];
const longWrites: readonly Path[] = [
  ["cache_write_tokens_details", "ttl_12h_tokens"],
  ["cache_creation_token_details", "ephemeral_1h_input_tokens"],
  ["cache_creation_token_details", "ephemeral_12h_input_tokens"],
  ["cache_creation", "ephemeral_1h_input_tokens"],
];

/**
 * What of an input was written to the cache, by how long it is kept there: shortly unless the provider tells of hours.
 * The parts may cover less than the whole, and never count for more.
 */
export function readCacheWrites(inputDetails: unknown): CacheWrites {
  const long = firstOf(inputDetails, longWrites);
  const whole = firstOf(inputDetails, wholeWrites) || firstOf(inputDetails, shortWrites) + long;
  const cacheWrite1hTokens = long < whole ? long : whole;
  return { cacheWrite5mTokens: whole - cacheWrite1hTokens, cacheWrite1hTokens };
}

// What compatible providers tell of tools that they ran: xAI its live search by the source and other tools by the call,
// OpenRouter what Anthropic would tell, under one name or both, Perplexity and DashScope each tool by the call.
const toolFields: readonly [bucket: UsageBucket, path: Path, again?: Path][] = [
  ["searchSources", ["num_sources_used"]],
  ["webSearches", ["num_search_queries"]],
  ["webSearches", ["server_tool_use", "web_search_requests"], ["server_tool_use_details", "web_search_requests"]],
  ["webFetches", ["server_tool_use", "web_fetch_requests"]],
  ["webSearches", ["server_side_tool_usage_details", "web_search_calls"]],
  ["toolCalls", ["server_side_tool_usage_details", "x_search_calls"]],
  ["codeSessions", ["server_side_tool_usage_details", "code_interpreter_calls"]],
  ["fileSearches", ["server_side_tool_usage_details", "file_search_calls"]],
  ["fileSearches", ["server_side_tool_usage_details", "document_search_calls"]],
  ["toolCalls", ["server_side_tool_usage_details", "image_generation_calls"]],
  // Volcengine.
  ["webSearches", ["tool_usage", "web_search"]],
  ["toolCalls", ["tool_usage", "image_process"]],
  ["webSearches", ["tool_calls_details", "web_search", "invocation"]],
  ["webSearches", ["tool_calls_details", "search_web", "invocation"]],
  ["webFetches", ["tool_calls_details", "fetch_url", "invocation"]],
  // DashScope tells searches of chat under one name and those of responses under another.
  ["webSearches", ["x_tools", "web_search", "count"], ["plugins", "search", "count"]],
  ["webFetches", ["x_tools", "web_extractor", "count"]],
  ["codeSessions", ["x_tools", "code_interpreter", "count"]],
];

const toolRoots = new Set(toolFields.flatMap(([, [root = ""], again]) => [root, ...(again?.slice(0, 1) ?? [])]));

// LiteLLM's names, which say the same again of searches that it passes on under the provider's own name.
const promptTools: readonly [bucket: UsageBucket, name: string][] = [
  ["webSearches", "web_search_requests"],
  ["toolCalls", "google_maps_grounding_requests"],
];

/** Tools that a compatible provider tells to have run, in units by which it bills them. */
export function readTools(usage: unknown): Units {
  const units = readNamedTools(usage);
  const details = member(usage, "prompt_tokens_details");
  for (const [bucket, name] of promptTools) {
    const count = countOf(member(details, name));
    if (count > 0n) units[bucket] ??= count;
  }
  return units;
}

function readNamedTools(usage: unknown): Units {
  const units: Units = {};
  // Nearly no answer has any, and each path would be followed.
  let hasTools = false;
  for (const root of toolRoots) hasTools ||= member(usage, root) !== undefined;
  if (!hasTools) return units;
  for (const [bucket, path, again] of toolFields) {
    const count = firstOf(usage, again ? [path, again] : [path]);
    if (count > 0n) units[bucket] = (units[bucket] ?? 0n) + count;
  }
  return units;
}

/** Milliseconds, rounded up; 0 for what is no time. */
export function millisecondsOf(seconds: unknown): bigint {
  const value = Math.ceil(Number(seconds) * 1_000);
  return Number.isSafeInteger(value) && value > 0 ? BigInt(value) : 0n;
}

const cacheReads: readonly Path[] = [
  ["prompt_tokens_details", "cached_tokens"],
  // Mistral has had this name, too.
  ["prompt_token_details", "cached_tokens"],
  ["prompt_cache_hit_tokens"],
  ["cached_tokens"],
  ["num_cached_tokens"],
  ["cache_read_input_tokens"],
];
const reasonings: readonly Path[] = [["completion_tokens_details", "reasoning_tokens"], ["reasoning_tokens"]];

/**
 * What Perplexity reads and thinks while it searches. It bills both, in none of its other counts: neither in
 * prompt_tokens and completion_tokens nor in the total.
 */
function readResearch(usage: unknown): { read: bigint; thought: bigint } {
  const isResearch =
    member(usage, "citation_tokens") !== undefined || member(usage, "num_search_queries") !== undefined;
  if (!isResearch) return { read: 0n, thought: 0n };
  return { read: countAt(usage, ["citation_tokens"]), thought: countAt(usage, ["reasoning_tokens"]) };
}

/** What was read from a cache where neither the input nor the total has it. */
function cachedBeside(usage: unknown, total: bigint): bigint {
  const [prompt, completion, read] = [
    countAt(usage, ["prompt_tokens"]),
    countAt(usage, ["completion_tokens"]),
    firstOf(usage, cacheReads),
  ];
  return read > prompt && total < prompt + completion + read ? read : 0n;
}

/** The provider's own total, with what it bills beside it. */
export function readTotal(usage: unknown): bigint | undefined {
  const total = totalOf(usage, "total_tokens");
  if (total === undefined) return undefined;
  const { read, thought } = readResearch(usage);
  const seen = countAt(usage, ["prompt_tokens"]) + countAt(usage, ["completion_tokens"]);
  return total + read + thought + cachedBeside(usage, total) + lackingOf(orchestrationOf(usage), total, seen);
}

const orchestrationOf = (usage: unknown): Orchestration | undefined =>
  readOrchestration(member(usage, "prompt_tokens_details"), member(usage, "completion_tokens_details"));

const wholes = ["prompt_tokens", "completion_tokens"];

/** Whether the prompt or the completion is not told. */
export const isPartial = (usage: unknown): boolean => lacksAny(usage, wholes);

/** How a model counts: whether its reasoning shows only in the total, or is told beside completion_tokens. */
export type CountingRule = { isReasoningInTotal?: boolean; isReasoningBeside?: boolean };

export const countingOf = (quirks?: ReadonlySet<Quirk>): CountingRule => ({
  isReasoningInTotal: quirks?.has("reasoning-in-total") ?? false,
  isReasoningBeside: quirks?.has("reasoning-beside-completion") ?? false,
});

/**
 * Reads `usage` of a chat completion into disjoint buckets. prompt_tokens includes cached, written and audio tokens
 * and completion_tokens includes reasoning and audio, so each part is taken out once; parts that exceed their whole
 * (seen with cache writes) are cut to it.
 */
export function readUsage(usage: unknown, counting: CountingRule = {}): Units | undefined {
  return readCounts((told) => readBuckets(told, counting), usage);
}

/** What of an input was read from a cache or written to one, whatever else it is. */
type Cached = CacheWrites & { cacheReadTokens: bigint };

const sumOf = ({ cacheReadTokens, cacheWrite5mTokens, cacheWrite1hTokens }: Cached): bigint =>
  cacheReadTokens + cacheWrite5mTokens + cacheWrite1hTokens;

/**
 * All of an input of which a provider told `input` tokens, and `beside` that only its total has. Most count what was
 * cached within it. Some models of xAI and some gateways count it beside, which shows where more was read from the
 * cache than there was input (https://github.com/vercel/ai/pull/12485), or where the total holds exactly that much more.
 */
export function wholeInput(input: bigint, cached: Cached, beside: bigint): bigint {
  const sum = sumOf(cached);
  if (sum > 0n && beside === sum) return input + sum;
  return cached.cacheReadTokens > input ? input + cached.cacheReadTokens : input;
}

/** What was cached, by OpenAI's names or, where these tell nothing, by another provider's. */
function readCached(usage: unknown): Cached {
  const written = readCacheWrites(member(usage, "prompt_tokens_details"));
  const hasWritten = written.cacheWrite5mTokens + written.cacheWrite1hTokens > 0n;
  return { cacheReadTokens: firstOf(usage, cacheReads), ...(hasWritten ? written : readCacheWrites(usage)) };
}

/** The parts of an input of so many tokens. */
function readInput(usage: unknown, prompt: bigint, cached: Cached): Units {
  const details = member(usage, "prompt_tokens_details");
  const {
    rest: inputTokens,
    cacheWrite1hTokens: kept,
    ...input
  } = takeParts(prompt, {
    ...cached,
    audioInputTokens: countOf(member(details, "audio_tokens")),
    imageInputTokens: countOf(member(details, "image_tokens")),
  });
  return { inputTokens, ...input, ...(kept > 0n && { cacheWrite1hTokens: kept }) };
}

function readBuckets(
  usage: unknown,
  { isReasoningInTotal = false, isReasoningBeside = false }: CountingRule,
): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const prompt = countOf(member(usage, "prompt_tokens"));
  const completion = countOf(member(usage, "completion_tokens"));
  const orchestration = orchestrationOf(usage);
  const total = excess(countOf(member(usage, "total_tokens")), orchestration?.tokens ?? 0n);
  const details = member(usage, "completion_tokens_details");
  const { read, thought } = readResearch(usage);
  const told = firstOf(usage, reasonings);
  const within = thought > 0n ? 0n : told;
  const beside = excess(total, prompt + completion);
  // Some compatible servers (xAI) count reasoning beside completion_tokens; only their total tells.
  const isInTotal = beside > 0n && (beside === within || isReasoningInTotal);
  const cached = readCached(usage);
  const isBesideCached = within > 0n && sumOf(cached) > 0n && beside === within + sumOf(cached);
  // Vercel's gateway leaves the thoughts of Gemini out of completion_tokens and of the total, and bills them.
  const isTooMuch = within > completion && total === prompt + completion;
  const outside = isInTotal ? beside : isReasoningBeside || isTooMuch || isBesideCached ? within : 0n;
  const {
    rest: outputTokens,
    imageOutputTokens,
    ...output
  } = takeParts(completion + outside, {
    reasoningTokens: outside > within ? outside : within,
    audioOutputTokens: countOf(member(details, "audio_tokens")),
    imageOutputTokens: countOf(member(details, "image_tokens")),
  });
  const { inputTokens = 0n, ...input } = readInput(usage, wholeInput(prompt, cached, excess(beside, outside)), cached);
  const mediaMs = millisecondsOf(member(usage, "prompt_audio_seconds"));
  const counts = {
    inputTokens: inputTokens + read,
    ...input,
    outputTokens,
    ...output,
    reasoningTokens: output.reasoningTokens + thought,
    ...(imageOutputTokens > 0n && { imageOutputTokens }),
    // Mistral's models that listen are billed by the time of what they hear.
    ...(mediaMs > 0n && { mediaMs }),
    ...readTools(usage),
  };
  return withOrchestration(counts, orchestration);
}

/** The same, of a usage that tells any count: some servers send an empty one. */
export function readToldUsage(usage: unknown, counting?: CountingRule): Units | undefined {
  return tellsCounts(usage) ? readUsage(usage, counting) : undefined;
}
