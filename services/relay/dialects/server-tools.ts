import type { ReplyUsage } from "./reply.ts";

export type ServerToolUse = { server_tool_use?: { web_search_requests: number; web_fetch_requests: number } };

/**
 * What the provider's web tools did, in the words of Anthropic, which callers of other formats know as a further field
 * of `usage`; nothing where none ran.
 */
export function writeServerTools({ webSearches = 0n, webFetches = 0n }: ReplyUsage): ServerToolUse {
  if (webSearches + webFetches === 0n) return {};
  return { server_tool_use: { web_search_requests: Number(webSearches), web_fetch_requests: Number(webFetches) } };
}
