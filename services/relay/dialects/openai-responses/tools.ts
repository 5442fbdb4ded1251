import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { AnswerSink } from "../answer.ts";
import { countOf, excess, member, stringOf, type ModelPart } from "../dialect.ts";
import { countSvg } from "../openai-shared/svg.ts";

// Tools that the provider runs and bills by the call.
const billedCalls = new Map<unknown, UsageBucket>([
  ["file_search_call", "fileSearches"],
  ["x_search_call", "toolCalls"],
]);

// A broken provider makes nobody remember more.
const mostContainers = 1_000;

/** What names the container that an item's code ran in; undefined where it ran in none, or at the caller's. */
function placeOf(item: unknown): unknown {
  const type = member(item, "type");
  if (type === "code_interpreter_call") return item;
  const environment = type === "shell_call" ? member(item, "environment") : undefined;
  return member(environment, "type") === "container_reference" ? environment : undefined;
}

// Of a web search only the search is billed, not the pages that are opened or looked through.
function bucketOf(item: unknown, containers: Set<string>): UsageBucket | undefined {
  const type = member(item, "type");
  if (type === "web_search_call") {
    const action = stringOf(member(member(item, "action"), "type")) ?? "search";
    return action === "search" ? "webSearches" : undefined;
  }
  if (type === "image_generation_call") return member(item, "result") ? "images" : undefined;
  const place = placeOf(item);
  if (place === undefined) return billedCalls.get(type);
  const container = stringOf(member(place, "container_id")) ?? "";
  if (containers.has(container) || containers.size === mostContainers) return undefined;
  containers.add(container);
  return "codeSessions";
}

/** Tools that the provider has run in an answer so far. */
export type ToolCount = {
  units: Units;
  /** In which it has run code. */
  containers: Set<string>;
  /** Use of the models that drew for it. */
  drawings: ModelPart[];
};

export const createToolCount = (): ToolCount => ({ units: {}, containers: new Set(), drawings: [] });

/** Counts a call of a tool that the provider bills, once per finished item; a container is new once in an answer. */
export function countTool(item: unknown, { units, containers, drawings }: ToolCount, sink: AnswerSink): void {
  countSvg(item, drawings);
  const bucket = bucketOf(item, containers);
  if (!bucket) return;
  const count = (units[bucket] ?? 0n) + 1n;
  units[bucket] = count;
  sink.counted(bucket, count);
}

/** What the provider itself tells of the tools that it ran, and the tokens of it, which are in no other total. */
export type ToolUsage = { units: Units; tokens: bigint };

function readImages(images: unknown): Units {
  const input = countOf(member(images, "input_tokens"));
  const output = countOf(member(images, "output_tokens"));
  const text = countOf(member(member(images, "input_tokens_details"), "text_tokens"));
  const said = countOf(member(member(images, "output_tokens_details"), "text_tokens"));
  const imageInputTokens = excess(input, text);
  const imageOutputTokens = excess(output, said);
  return {
    inputTokens: input - imageInputTokens,
    imageInputTokens,
    outputTokens: output - imageOutputTokens,
    imageOutputTokens,
    // They are charged by their tokens.
    images: 0n,
  };
}

/** Reads `tool_usage` of a response: billable searches, and the tokens of pictures, which the model's own lack. */
export function readToolUsage(response: unknown): ToolUsage {
  const told = member(response, "tool_usage");
  const searches = member(member(told, "web_search"), "num_requests");
  const images = member(told, "image_gen");
  const tokens = countOf(member(images, "input_tokens")) + countOf(member(images, "output_tokens"));
  return {
    units: {
      ...(typeof searches === "number" && { webSearches: countOf(searches) }),
      ...(tokens > 0n && readImages(images)),
    },
    tokens,
  };
}
