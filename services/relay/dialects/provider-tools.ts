import type { UsageBucket } from "#shared/money/pricing.ts";
import { UnsupportedError, type ToolChoice, type WebSearch } from "./conversation.ts";
import { isWebSearch, readWebSearch } from "./web-search.ts";

/** Tools that providers know by a type of their own. */
type ProviderTool = {
  /** The type, or what it begins with before a `_` and a date or the like. */
  begin: string;
  runsAt: "provider" | "caller";
  /** How it is billed beside the tokens that it reads and writes; `apart`: by what no bucket counts. */
  bills: UsageBucket | "apart" | "nothing";
};

/**
 * What providers bill apart, by https://developers.openai.com/api/docs/pricing (built-in tools) and
 * https://platform.claude.com/docs/en/about-claude/pricing (tools), November 2026. The types are those of the official
 * clients; a test fails when these know another.
 */
const providerTools: readonly ProviderTool[] = [
  // Both bill each search; OpenAI also each search of files.
  { begin: "web_search", runsAt: "provider", bills: "webSearches" },
  { begin: "file_search", runsAt: "provider", bills: "fileSearches" },
  // Groq's; before the browser that a caller runs.
  { begin: "browser_search", runsAt: "provider", bills: "webSearches" },
  // The time of containers.
  { begin: "code_interpreter", runsAt: "provider", bills: "apart" },
  { begin: "code_execution", runsAt: "provider", bills: "apart" },
  { begin: "environment.container", runsAt: "provider", bills: "apart" },
  // Tokens of another model.
  { begin: "image_generation", runsAt: "provider", bills: "apart" },
  { begin: "advisor", runsAt: "provider", bills: "apart" },
  // Nothing but tokens.
  { begin: "web_fetch", runsAt: "provider", bills: "nothing" },
  { begin: "mcp", runsAt: "provider", bills: "nothing" },
  { begin: "tool_search", runsAt: "provider", bills: "nothing" },
  { begin: "programmatic_tool_calling", runsAt: "provider", bills: "nothing" },
  ...[
    "function",
    "custom",
    "namespace",
    "shell",
    "environment.local",
    "local_shell",
    "apply_patch",
    "computer",
    "bash",
    "text_editor",
    "memory",
    "browser",
  ].map((begin) => ({ begin, runsAt: "caller", bills: "nothing" }) as const),
];

function toolOf(type: string): ProviderTool | undefined {
  return providerTools.find(({ begin }) => type === begin || type.startsWith(`${begin}_`));
}

/** How a tool of this type is billed; one that nobody knows may cost anything. */
export const billingOf = (type: string): ProviderTool["bills"] => toolOf(type)?.bills ?? "apart";

/** A declared tool that only its provider knows, and the words in which it is refused. */
export type ForeignTool = {
  type: string;
  name?: string | undefined;
  refusal: string;
  /** As it was declared. */
  tool: unknown;
};

/**
 * Leaves out tools that only their provider runs, and names them: an answer without them is still one. Throws
 * UnsupportedError for those that the caller would run, and wait for in vain, and where one of them may be the tool
 * that must be called. Gives the search that is among them, which another provider may have as well.
 */
export function leaveOutTools(
  foreign: readonly ForeignTool[],
  choice: ToolChoice | undefined,
  dropped: Set<string>,
): { webSearch?: WebSearch } {
  const chosen = choice?.names && new Set(choice.names);
  const mustBe = (name: string | undefined): boolean =>
    choice?.kind === "required" && (chosen === undefined || (name !== undefined && chosen.has(name)));
  let webSearch: WebSearch | undefined;
  // What may be called is named, and a search is not.
  const maySearch = choice?.kind !== "none" && chosen === undefined;
  for (const { type, name, refusal, tool } of foreign) {
    if (mustBe(name) || toolOf(type)?.runsAt !== "provider") throw new UnsupportedError(refusal);
    dropped.add(`tools.${type}`);
    if (maySearch && isWebSearch(type)) webSearch ??= readWebSearch(tool, type);
  }
  return webSearch ? { webSearch } : {};
}
