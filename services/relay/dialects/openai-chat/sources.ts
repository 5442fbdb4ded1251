import type { Citation } from "../conversation.ts";
import { member, stringOf } from "../dialect.ts";

// Where servers that search tell beside the choices what they found: Perplexity and xAI (docs.perplexity.ai,
// docs.x.ai/docs/guides/live-search), Zhipu (docs.bigmodel.cn/cn/guide/tools/web-search), DashScope
// (alibabacloud.com/help/en/model-studio/web-search), Volcengine's bots. The first that has any counts, as others
// say the same again.
const places: readonly (readonly string[])[] = [
  ["search_results"],
  ["web_search"],
  ["search_info", "search_results"],
  ["references"],
  ["citations"],
];

// More than any search finds.
const maxSources = 100;

/** A page by its address, which some give alone. */
function readSource(found: unknown): Citation | undefined {
  const url = stringOf(found) ?? stringOf(member(found, "url")) ?? stringOf(member(found, "link"));
  if (!url || !URL.canParse(url)) return undefined;
  const title = stringOf(member(found, "title"));
  return { url, ...(title && { title }) };
}

/** What a chunk, or a whole answer, tells of the pages that were found for it; undefined: nothing. */
export function readSources(chunk: unknown): Citation[] | undefined {
  for (const path of places) {
    let found = chunk;
    for (const name of path) found = member(found, name);
    if (!Array.isArray(found) || found.length === 0) continue;
    const sources = found.slice(0, maxSources).flatMap((one) => readSource(one) ?? []);
    if (sources.length > 0) return sources;
  }
  return undefined;
}
