import type { WebSearch } from "./conversation.ts";
import { isGiven, member, stringOf } from "./dialect.ts";

const maxDomains = 100;

function domainsOf(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.filter((domain): domain is string => typeof domain === "string").slice(0, maxDomains);
}

const locationFields = ["city", "region", "country", "timezone"] as const;

function locationOf(value: unknown): Record<string, string> | undefined {
  const told = locationFields.flatMap((name) => {
    const text = stringOf(member(value, name));
    return text ? [[name, text] as const] : [];
  });
  return told.length === 0 ? undefined : Object.fromEntries(told);
}

/** Whether a type is that of a search of the web, at Anthropic (dated) or in OpenAI's Responses. */
export const isWebSearch = (type: string): boolean => type === "web_search" || /^web_search_(?:preview|20)/.test(type);

/** Reads the declaration of such a tool; undefined for one that may not use the web as it is now. */
export function readWebSearch(tool: unknown, type: string): WebSearch | undefined {
  if (member(tool, "external_web_access") === false) return undefined;
  const filters = member(tool, "filters");
  const allowedDomains = domainsOf(member(filters, "allowed_domains") ?? member(tool, "allowed_domains"));
  const blockedDomains = domainsOf(member(filters, "blocked_domains") ?? member(tool, "blocked_domains"));
  // One that says both is refused by either provider.
  if (allowedDomains && blockedDomains) return undefined;
  const maxUses = member(tool, "max_uses");
  const location = locationOf(member(tool, "user_location"));
  const contextSize = stringOf(member(tool, "search_context_size"));
  return {
    lostAs: `tools.${type}`,
    ...(typeof maxUses === "number" && maxUses >= 1 && { maxUses: Math.floor(maxUses) }),
    ...(allowedDomains && { allowedDomains }),
    ...(blockedDomains && { blockedDomains }),
    ...(location && { location }),
    ...(contextSize !== undefined && { contextSize }),
  };
}

/** Reads `web_search_options` of chat, which asks for a search even without settings. */
export function readSearchOptions(options: unknown): WebSearch | undefined {
  if (options === null || options === undefined) return undefined;
  const location = locationOf(member(member(options, "user_location"), "approximate"));
  const contextSize = stringOf(member(options, "search_context_size"));
  return {
    lostAs: "web_search_options",
    ...(location && { location }),
    ...(contextSize !== undefined && { contextSize }),
  };
}

type Body = Record<string, unknown>;

const toolsOf = ({ tools }: Body): unknown[] => (Array.isArray(tools) ? (tools as unknown[]) : []);
const approximate = (location: Record<string, string> | undefined): object =>
  location ? { user_location: { type: "approximate", ...location } } : {};

/**
 * A Messages request that may search, too; undefined where it cannot: a tool of the caller's has the name, or tools
 * only stand for calls before.
 */
export function addToMessages(
  body: Body,
  { maxUses, allowedDomains, blockedDomains, location }: WebSearch,
): Body | undefined {
  const tools = toolsOf(body);
  const isTaken = tools.some((tool) => member(tool, "name") === "web_search");
  if (isTaken || member(body["tool_choice"], "type") === "none") return undefined;
  const search = {
    // The version that all models know which search.
    type: "web_search_20250305",
    name: "web_search",
    ...(maxUses !== undefined && { max_uses: maxUses }),
    ...(allowedDomains && { allowed_domains: allowedDomains }),
    ...(blockedDomains && { blocked_domains: blockedDomains }),
    ...approximate(location),
  };
  return { ...body, tools: [...tools, search] };
}

/** A Responses request that may search, too; undefined where it cannot be told where not to. */
export function addToResponses(body: Body, search: WebSearch): Body | undefined {
  const { maxUses, allowedDomains, blockedDomains, location, contextSize } = search;
  if (blockedDomains) return undefined;
  const tool = {
    type: "web_search",
    ...(allowedDomains && { filters: { allowed_domains: allowedDomains } }),
    ...approximate(location),
    ...(contextSize !== undefined && { search_context_size: contextSize }),
  };
  return { ...body, tools: [...toolsOf(body), tool], ...(maxUses !== undefined && { max_tool_calls: maxUses }) };
}

/**
 * A request of Gemini that may search, too. Its search has no settings, and most models refuse it beside functions and
 * beside JSON as the form of the answer (https://ai.google.dev/gemini-api/docs/google-search).
 */
export function addToGemini(body: Body, { maxUses, allowedDomains, blockedDomains }: WebSearch): Body | undefined {
  const isBound = maxUses !== undefined || allowedDomains !== undefined || blockedDomains !== undefined;
  const isJson = isGiven(member(body["generationConfig"], "responseMimeType"));
  if (isBound || isJson || toolsOf(body).length > 0) return undefined;
  return { ...body, tools: [{ googleSearch: {} }] };
}
