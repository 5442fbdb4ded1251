import { UnsayableError, type ToolChoice } from "./conversation.ts";

/**
 * Tools of a provider's own that it runs itself, by the beginning of their type. Another provider lacks them, and an
 * answer without them is still one. What callers run (a shell, an editor, a computer) they would wait for in vain.
 */
const runByProvider: readonly string[] = [
  "web_search",
  "web_fetch",
  "file_search",
  "code_interpreter",
  "code_execution",
  "image_generation",
  "mcp",
  "tool_search",
  "programmatic_tool_calling",
  "advisor",
];

const isRunByProvider = (type: string): boolean => runByProvider.some((begin) => type.startsWith(begin));

/** A declared tool that only its provider knows, and the words in which it is refused. */
export type ForeignTool = { type: string; refusal: string };

/**
 * Leaves out tools that only their provider runs, and names them. Throws UnsayableError for those that the caller would
 * run, and where one of them may be the tool that must be called.
 */
export function leaveOutTools(
  foreign: readonly ForeignTool[],
  choice: ToolChoice | undefined,
  dropped: Set<string>,
): void {
  const isForced = choice?.kind === "required" && choice.names === undefined;
  for (const { type, refusal } of foreign) {
    if (isForced || !isRunByProvider(type)) throw new UnsayableError(refusal);
    dropped.add(`tools.${type}`);
  }
}
