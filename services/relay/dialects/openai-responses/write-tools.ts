import type { Conversation, Loss, Target, Tool, ToolChoice } from "../conversation.ts";
import { member } from "../dialect.ts";

type WireTool = Record<string, unknown> & { type: "function" | "custom"; name: string };

/** The provider refuses an object that does not say what its properties are, even where there are none. */
function writeSchema(schema: unknown): unknown {
  if (schema === undefined) return { type: "object", properties: {} };
  const isBare = member(schema, "type") === "object" && member(schema, "properties") === undefined;
  return isBare ? { ...(schema as object), properties: {} } : schema;
}

/** A grammar as this format has it, flat; some callers' formats have it one level deeper. */
function flatFormat(format: unknown): unknown {
  const grammar = member(format, "grammar");
  return typeof grammar === "object" && grammar !== null ? { type: member(format, "type"), ...grammar } : format;
}

function writeTool(tool: Tool, losses: Set<Loss>): WireTool {
  const { name, description, schema, isStrict, isFreeText, cache } = tool;
  if (cache) losses.add("cache");
  const told = { name, ...(description !== undefined && { description }) };
  if (isFreeText) return { type: "custom", ...told, ...(schema !== undefined && { format: flatFormat(schema) }) };
  // Left out it would mean true, which refuses most schemas.
  return { type: "function", ...told, parameters: writeSchema(schema), strict: isStrict ?? false };
}

function writeChoice({ kind, names }: ToolChoice, tools: WireTool[]): unknown {
  if (!names || kind === "none") return kind;
  const named = names.map((name) => ({ type: tools.find((tool) => tool.name === name)?.type ?? "function", name }));
  const [only] = named;
  if (kind === "required" && named.length === 1 && only) return only;
  return { type: "allowed_tools", mode: kind, tools: named };
}

/** `tools` and what is said of their use; without tools nothing can be. */
export function writeTools(conversation: Conversation, { quirks }: Target, losses: Set<Loss>): Record<string, unknown> {
  const { toolChoice, allowsParallelCalls } = conversation;
  const tools = conversation.tools.map((tool) => writeTool(tool, losses));
  if (tools.length === 0) {
    if (toolChoice && toolChoice.kind === "required") losses.add("toolChoice");
    return {};
  }
  const isRefused = toolChoice?.kind === "required" && quirks.has("no-forced-tool");
  if (isRefused) losses.add("toolChoice");
  const choice: ToolChoice | undefined = isRefused ? { ...toolChoice, kind: "auto" } : toolChoice;
  return {
    tools,
    ...(choice && { tool_choice: writeChoice(choice, tools) }),
    ...(allowsParallelCalls !== undefined && { parallel_tool_calls: allowsParallelCalls }),
  };
}
