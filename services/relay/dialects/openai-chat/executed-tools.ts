import type { Units, UsageBucket } from "#shared/money/pricing.ts";
import type { AnswerSink } from "../answer.ts";
import { member, stringOf } from "../dialect.ts";

// What Groq calls its tools, and bills by the call or by the time (https://groq.com/pricing). A model's browser has
// names of its own: of what it does, searching and opening pages are billed.
const buckets: Record<string, UsageBucket | undefined> = {
  search: "webSearches",
  web_search: "webSearches",
  browser_search: "webSearches",
  "browser.search": "webSearches",
  visit: "webFetches",
  visit_website: "webFetches",
  "browser.open": "webFetches",
  python: "codeSessions",
  code_interpreter: "codeSessions",
  "browser.find": undefined,
};

// The place of a search that has none.
const shown = "web_search";

// A broken provider makes nobody remember more.
const mostTools = 1_000;

/** Tools that a provider ran for an answer so far. */
export type ExecutedTools = { places: Set<unknown>; units: Units };

/** Counts the search of which Zhipu shows the results beside the choices (https://docs.bigmodel.cn/cn/guide/tools/web-search). */
export function countShown(results: unknown, { places, units }: ExecutedTools, sink: AnswerSink): void {
  if (!Array.isArray(results) || results.length === 0 || places.has(shown)) return;
  places.add(shown);
  sink.counted("webSearches", (units.webSearches = (units.webSearches ?? 0n) + 1n));
}

export const createExecutedTools = (): ExecutedTools => ({ places: new Set(), units: {} });

function bucketOf(tool: unknown): UsageBucket | undefined {
  const name = stringOf(member(tool, "name")) || stringOf(member(tool, "type")) || "";
  return Object.hasOwn(buckets, name) ? buckets[name] : "toolCalls";
}

/** Counts `executed_tools`, each once: a stream tells a tool when it begins, and again when it has ended. */
export function countExecuted(executed: unknown, { places, units }: ExecutedTools, sink: AnswerSink): void {
  if (!Array.isArray(executed)) return;
  executed.forEach((tool: unknown, at) => {
    const place = member(tool, "index") ?? at;
    if (places.has(place) || places.size === mostTools) return;
    places.add(place);
    const bucket = bucketOf(tool);
    if (bucket) sink.counted(bucket, (units[bucket] = (units[bucket] ?? 0n) + 1n));
  });
}
