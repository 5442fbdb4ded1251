import type { Conversation, Loss, Tool, ToolChoice } from "../conversation.ts";
import { freeTextSchema, hasGrammar, writeToolName } from "../free-text.ts";
import type { RequestMessage, RequestTool, ToolChoiceField } from "./wire.ts";
import { writeCache } from "./write-content.ts";

/** `input_schema` must be of type object. */
function writeSchema(schema: unknown): Record<string, unknown> {
  if (typeof schema !== "object" || schema === null) return { type: "object", properties: {} };
  return "type" in schema ? { ...schema } : { type: "object", ...schema };
}

/**
 * `strict` stays out: older models refuse it, and so do newer ones with the schemas that other providers take with
 * it (lengths, ranges, patterns).
 */
function writeTool(tool: Tool, losses: Set<Loss>): RequestTool {
  const { name, description, schema, isStrict, isFreeText, cache } = tool;
  if (isStrict || (isFreeText && hasGrammar(schema))) losses.add("toolStrictness");
  return {
    name: writeToolName(name, isFreeText),
    ...(description && { description }),
    input_schema: isFreeText ? freeTextSchema(tool) : writeSchema(schema),
    ...writeCache(cache),
  };
}

/** Tools that the conversation speaks of although the request does not declare them; the provider wants each. */
function toolsOfCalls(messages: RequestMessage[]): RequestTool[] {
  const blocks = messages.flatMap(({ content }) => content);
  const names = blocks.flatMap((block) => (block.type === "tool_use" ? [block.name] : []));
  return [...new Set(names)].map((name) => ({ name, input_schema: writeSchema(undefined) }));
}

function writeChoice(
  { tools, toolChoice = { kind: "auto" } }: Conversation,
  isForceable: boolean,
  losses: Set<Loss>,
): ToolChoiceField {
  const { kind, names = [] }: ToolChoice = toolChoice;
  if (kind !== "required") return { type: kind };
  if (!isForceable) {
    losses.add("toolChoice");
    return { type: "auto" };
  }
  const [name] = names;
  if (name === undefined || names.length > 1) return { type: "any" };
  const isFreeText = tools.some((tool) => tool.name === name && tool.isFreeText);
  return { type: "tool", name: writeToolName(name, isFreeText) };
}

/** A subset of tools can only be said by leaving out the others; one that must be called is named instead. */
function chosenTools({ tools, toolChoice }: Conversation, isForceable: boolean): Tool[] {
  const names = toolChoice?.kind === "none" ? [] : (toolChoice?.names ?? []);
  const isNamed = toolChoice?.kind === "required" && names.length === 1 && isForceable;
  return names.length === 0 || isNamed ? tools : tools.filter(({ name }) => names.includes(name));
}

/**
 * Tools and how they may be called. `isForceable`: whether the model can be made to call one, which none can that is
 * thinking. Without tools there is no choice to say.
 */
export function writeTools(
  conversation: Conversation,
  messages: RequestMessage[],
  isForceable: boolean,
  losses: Set<Loss>,
): { tools?: RequestTool[]; tool_choice?: ToolChoiceField } {
  const { toolChoice, allowsParallelCalls } = conversation;
  const tools = chosenTools(conversation, isForceable).map((tool) => writeTool(tool, losses));
  if (tools.length === 0) {
    if (toolChoice?.kind === "required" || toolChoice?.names?.length) losses.add("toolChoice");
    const spoken = toolsOfCalls(messages);
    return spoken.length === 0 ? {} : { tools: spoken, tool_choice: { type: "none" } };
  }
  const isSingle = allowsParallelCalls === false;
  const choice = toolChoice || isSingle ? writeChoice(conversation, isForceable, losses) : undefined;
  if (choice && isSingle && choice.type !== "none") choice.disable_parallel_tool_use = true;
  return { tools, ...(choice && { tool_choice: choice }) };
}
