import type { UsageBucket } from "#shared/money/pricing.ts";
import type { ProviderFormat } from "./reading.ts";

// What a recorded answer must be charged for, by what its provider says of its bill. It shares nothing with the relay's
// own reading of counts, so that both must be wrong in the same way before a mistake passes.
//
// chat        prompt_tokens holds what was read from and written to a cache, sounds and pictures; completion_tokens the
//             reasoning, sounds and pictures. xAI's reasoning stands beside completion_tokens: then the total is larger
//             than prompt and completion by just that. Vercel's gateway leaves Gemini's out of the total, too: they are
//             more than the completion. DeepSeek and Moonshot name the cache otherwise, Groq and
//             Moonshot put the counts elsewhere in a stream, Perplexity bills citation_tokens as input and its
//             reasoning_tokens beside all other counts. Of a stream the last counts hold.
// responses   input_tokens and output_tokens likewise. Beside them: each web search (not the pages that are opened),
//             each search of files or of X, each container for code, and what pictures took.
// messages    input_tokens is without the cache. Runs of a model beyond the last stand in `iterations`. Of a stream
//             later counts replace earlier ones, field by field.
// gemini      promptTokenCount holds the cache, toolUsePromptTokenCount comes on top. Thoughts stand beside the
//             candidates, but for models whose total says that they are among them. The total is the sum of all, so
//             that what it holds beyond the others are thoughts. Searches: each query; before Gemini 3 each prompt.

export type Bill = Partial<Record<UsageBucket, number>>;

const at = (value: unknown, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>(
      (inner, name) =>
        typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
      value,
    );
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const number = (value: unknown, ...paths: string[]): number => {
  const found = paths.map((path) => at(value, path)).find((count) => typeof count === "number" && count > 0);
  return typeof found === "number" ? found : 0;
};
const tellsAny = (usage: unknown): boolean =>
  typeof usage === "object" && usage !== null && Object.values(usage).some((count) => typeof count === "number");

/** Puts the parts of a whole and what is left of it into their buckets. */
function split(whole: number, rest: UsageBucket, parts: Bill): Bill {
  const told = Object.values(parts).reduce((sum, count) => sum + count, 0);
  return { ...parts, [rest]: whole - told };
}

function add(...bills: Bill[]): Bill {
  const sum: Bill = {};
  for (const bill of bills) {
    for (const [name, count] of Object.entries(bill) as [UsageBucket, number][]) sum[name] = (sum[name] ?? 0) + count;
  }
  return Object.fromEntries(Object.entries(sum).filter(([, count]) => count !== 0));
}

const openaiTools = (usage: unknown): Bill => ({
  searchSources: number(usage, "num_sources_used"),
  webSearches:
    number(usage, "num_search_queries") +
    number(usage, "server_tool_use.web_search_requests") +
    number(usage, "server_side_tool_usage_details.web_search_calls"),
  toolCalls: number(usage, "server_side_tool_usage_details.x_search_calls"),
  codeSessions: number(usage, "server_side_tool_usage_details.code_interpreter_calls"),
  fileSearches: number(usage, "server_side_tool_usage_details.file_search_calls"),
});

const writtenLong = (details: unknown): number => number(details, "cache_write_tokens_details.ttl_12h_tokens");

function billChat(events: unknown[]): Bill | undefined {
  const told = events.flatMap((event) => [
    at(event, "x_groq.usage"),
    ...list(at(event, "choices")).map((choice) => at(choice, "usage")),
    at(event, "usage"),
  ]);
  const usage = told.findLast((one) => tellsAny(one) && number(one, "prompt_tokens", "total_tokens") > 0);
  if (usage === undefined) return undefined;
  const [prompt, completion] = [number(usage, "prompt_tokens"), number(usage, "completion_tokens")];
  const isResearch = number(usage, "num_search_queries", "citation_tokens") > 0;
  const thought = number(
    usage,
    "completion_tokens_details.reasoning_tokens",
    ...(isResearch ? [] : ["reasoning_tokens"]),
  );
  const isBeside =
    thought > completion || (thought > 0 && number(usage, "total_tokens") === prompt + completion + thought);
  const long = writtenLong(at(usage, "prompt_tokens_details"));
  return add(
    split(prompt, "inputTokens", {
      cacheReadTokens: number(
        usage,
        "prompt_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "cache_read_input_tokens",
      ),
      cacheWrite5mTokens:
        number(usage, "prompt_tokens_details.cache_write_tokens", "cache_creation_input_tokens") - long,
      cacheWrite1hTokens: long,
      audioInputTokens: number(usage, "prompt_tokens_details.audio_tokens"),
      imageInputTokens: number(usage, "prompt_tokens_details.image_tokens"),
    }),
    split(completion + (isBeside ? thought : 0), "outputTokens", {
      reasoningTokens: thought,
      audioOutputTokens: number(usage, "completion_tokens_details.audio_tokens"),
      imageOutputTokens: number(usage, "completion_tokens_details.image_tokens"),
    }),
    isResearch
      ? { inputTokens: number(usage, "citation_tokens"), reasoningTokens: number(usage, "reasoning_tokens") }
      : {},
    openaiTools(usage),
  );
}

function billItem(item: unknown, containers: Set<unknown>): Bill {
  switch (at(item, "type")) {
    case "web_search_call":
      return { webSearches: (at(item, "action.type") ?? "search") === "search" ? 1 : 0 };
    case "file_search_call":
      return { fileSearches: 1 };
    case "x_search_call":
      return { toolCalls: 1 };
    case "image_generation_call":
      return { images: at(item, "result") ? 1 : 0 };
    case "code_interpreter_call": {
      const isKnown = containers.has(at(item, "container_id"));
      containers.add(at(item, "container_id"));
      return { codeSessions: isKnown ? 0 : 1 };
    }
    default:
      return {};
  }
}

function billPictures(response: unknown): Bill {
  const pictures = at(response, "tool_usage.image_gen");
  const [input, output] = [number(pictures, "input_tokens"), number(pictures, "output_tokens")];
  return {
    ...split(input, "imageInputTokens", { inputTokens: number(pictures, "input_tokens_details.text_tokens") }),
    ...split(output, "imageOutputTokens", { outputTokens: number(pictures, "output_tokens_details.text_tokens") }),
  };
}

function billResponse(events: unknown[]): Bill | undefined {
  const ended = events.map((event) => at(event, "response") ?? event);
  const response = ended.findLast((one) => tellsAny(at(one, "usage")));
  if (response === undefined) return undefined;
  const usage = at(response, "usage");
  const containers = new Set<unknown>();
  const pictures = billPictures(response);
  const items = add(...list(at(response, "output")).map((item) => billItem(item, containers)));
  const told = openaiTools(usage);
  const searches = at(response, "tool_usage.web_search.num_requests");
  if (typeof searches === "number") items.webSearches = searches;
  for (const [name, count] of Object.entries(told)) if (count > 0) items[name as UsageBucket] = count;
  if (Object.values(pictures).some((count) => count > 0)) delete items.images;
  const long = writtenLong(at(usage, "input_tokens_details"));
  return add(
    split(number(usage, "input_tokens"), "inputTokens", {
      cacheReadTokens: number(usage, "input_tokens_details.cached_tokens"),
      cacheWrite5mTokens: number(usage, "input_tokens_details.cache_write_tokens") - long,
      cacheWrite1hTokens: long,
    }),
    split(number(usage, "output_tokens"), "outputTokens", {
      reasoningTokens: number(usage, "output_tokens_details.reasoning_tokens"),
    }),
    pictures,
    items,
  );
}

function billRun(run: unknown): Bill {
  const hour = number(run, "cache_creation.ephemeral_1h_input_tokens");
  return {
    inputTokens: number(run, "input_tokens"),
    cacheReadTokens: number(run, "cache_read_input_tokens"),
    cacheWrite5mTokens: number(run, "cache_creation_input_tokens") - hour,
    cacheWrite1hTokens: hour,
    outputTokens: number(run, "output_tokens"),
  };
}

function billMessage(events: unknown[]): Bill | undefined {
  const told = events.map((event) => at(event, "message.usage") ?? at(event, "usage"));
  const given = told.flatMap((usage) => Object.entries((usage ?? {}) as object).filter(([, count]) => count !== null));
  if (given.length === 0) return undefined;
  const usage: unknown = Object.fromEntries(given);
  const runs = list(at(usage, "iterations"));
  const thought = number(usage, "output_tokens_details.thinking_tokens");
  return add(
    runs.length > 0 ? add(...runs.map(billRun)) : billRun(usage),
    { outputTokens: -thought, reasoningTokens: thought },
    {
      webSearches: number(usage, "server_tool_use.web_search_requests"),
      webFetches: number(usage, "server_tool_use.web_fetch_requests"),
    },
  );
}

function ofKind(usage: unknown, name: string, modality: string): number {
  const found = list(at(usage, name)).filter((one) => at(one, "modality") === modality);
  return found.reduce<number>((sum, one) => sum + number(one, "tokenCount"), 0);
}

function billGemini(events: unknown[]): Bill | undefined {
  const usage = events.map((event) => at(event, "usageMetadata")).findLast((told) => tellsAny(told));
  if (usage === undefined) return undefined;
  const input = number(usage, "promptTokenCount") + number(usage, "toolUsePromptTokenCount");
  const candidates = number(usage, "candidatesTokenCount");
  const total = number(usage, "totalTokenCount");
  const thought = number(usage, "thoughtsTokenCount") || Math.max(total - input - candidates, 0);
  const visible = thought > 0 && total === input + candidates ? candidates - thought : candidates;
  const cached = number(usage, "cachedContentTokenCount");
  const fresh = (modality: string): number =>
    ofKind(usage, "promptTokensDetails", modality) +
    ofKind(usage, "toolUsePromptTokensDetails", modality) -
    ofKind(usage, "cacheTokensDetails", modality);
  const queries = events.map((event) =>
    list(at(event, "candidates")).reduce<number>(
      (sum, candidate) => sum + list(at(candidate, "groundingMetadata.webSearchQueries")).length,
      0,
    ),
  );
  const searches = Math.max(0, ...queries);
  const isByPrompt = events.some((event) => /gemini-[12]\b/.test(String(at(event, "modelVersion"))));
  return add(
    split(input, "inputTokens", {
      cacheReadTokens: cached,
      audioInputTokens: Math.max(fresh("AUDIO"), 0),
      imageInputTokens: Math.max(fresh("IMAGE"), 0),
    }),
    split(visible, "outputTokens", {
      audioOutputTokens: ofKind(usage, "candidatesTokensDetails", "AUDIO"),
      imageOutputTokens: ofKind(usage, "candidatesTokensDetails", "IMAGE"),
    }),
    { reasoningTokens: thought, webSearches: isByPrompt ? Math.min(searches, 1) : searches },
  );
}

const bills = { chat: billChat, responses: billResponse, messages: billMessage, gemini: billGemini };

/** What an answer must be charged for, of its body or of all its events; undefined where no counts were told. */
export const billOf = (format: ProviderFormat, events: unknown[]): Bill | undefined => bills[format](events);
