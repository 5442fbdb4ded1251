import type { Units, UsageBucket } from "#shared/money/pricing.ts";

const tools = ["webSearches", "fileSearches", "codeSessions", "searchSources"] as const satisfies UsageBucket[];

/**
 * Use of tools as these prices speak of it: one without a price of its own is a tool call, so that none is free and a
 * catalog that prices all tools alike needs one price. A web fetch is not among them: Anthropic bills it by its tokens
 * only (platform.claude.com/docs/en/agents-and-tools/tool-use/web-fetch-tool).
 */
export function asPricedTools(usage: Units, prices: Units): Units {
  let told: Units | undefined;
  for (const bucket of tools) {
    const units = usage[bucket] ?? 0n;
    if (units === 0n || prices[bucket] !== undefined) continue;
    told ??= { ...usage };
    told[bucket] = 0n;
    told.toolCalls = (told.toolCalls ?? 0n) + units;
  }
  return told ?? usage;
}
