import { UnsupportedError, type Conversation, type Tool, type ToolChoice } from "../conversation.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { leaveOutTools, type ForeignTool } from "../provider-tools.ts";
import { readSearchOptions } from "../web-search.ts";
import { readCache } from "./read-parts.ts";

/** What `function` and `custom` have in common. */
function readDeclared(declared: unknown, path: string): Pick<Tool, "name" | "description"> {
  const name = stringOf(member(declared, "name"));
  if (!name) throw new UnsupportedError(`field ${path}.name must be a string`);
  const description = stringOf(member(declared, "description"));
  return { name, ...(description !== undefined && { description }) };
}

function readFunction(declared: unknown, path: string): Tool {
  const schema = member(declared, "parameters");
  const isStrict = member(declared, "strict");
  return {
    ...readDeclared(declared, path),
    ...(schema !== undefined && schema !== null && { schema }),
    ...(typeof isStrict === "boolean" && { isStrict }),
  };
}

/** Whether tools are declared as the deprecated `functions`: such callers know one `function_call` per answer. */
export function asksFunctionCall(body: Record<string, unknown>): boolean {
  return isGiven(body["functions"]) && !isGiven(body["tools"]);
}

/** A grammar lies one level deeper in chat than in Responses, whose shape the neutral tool keeps. */
function flatFormat(format: unknown): unknown {
  const grammar = member(format, "grammar");
  return typeof grammar === "object" && grammar !== null ? { type: member(format, "type"), ...grammar } : format;
}

/** Reads a tool; undefined when it is none of the caller's, and joins the foreign ones. */
function readTool(tool: unknown, path: string, foreign: ForeignTool[]): Tool | undefined {
  const type = member(tool, "type");
  // Mistral's client leaves the type out, which says function there.
  if (type === "function" || (!isGiven(type) && isGiven(member(tool, "function")))) {
    return { ...readFunction(member(tool, "function"), `${path}.function`), ...readCache(tool) };
  }
  if (type !== "custom") {
    const refusal = `field ${path}.type has a value that cannot be used with this model`;
    foreign.push({ type: stringOf(type) ?? "unknown", refusal, tool });
    return undefined;
  }
  const declared = member(tool, "custom");
  const format = member(declared, "format");
  return {
    ...readDeclared(declared, `${path}.custom`),
    isFreeText: true,
    ...(isGiven(format) && { schema: flatFormat(format) }),
    ...readCache(tool),
  };
}

/**
 * Reads `tools`, and behind them the deprecated `functions`. Leaves out what only the provider runs, where no tool must
 * be called. Throws UnsupportedError for other tools that are not the caller's.
 */
export function readTools(
  body: Record<string, unknown>,
  choice: ToolChoice | undefined,
  dropped: Set<string>,
): Pick<Conversation, "tools" | "webSearch"> {
  const lists = (["tools", "functions"] as const).map((field) => {
    const list = body[field];
    if (Array.isArray(list)) return list as unknown[];
    if (isGiven(list)) dropped.add(field);
    return [];
  });
  const [tools = [], functions = []] = lists;
  const foreign: ForeignTool[] = [];
  const read = tools.map((tool, at) => readTool(tool, `tools[${at}]`, foreign));
  const search = readSearchOptions(choice?.kind === "none" ? undefined : body["web_search_options"]);
  return {
    ...leaveOutTools(foreign, choice, dropped),
    ...(search && { webSearch: search }),
    tools: [
      ...read.filter((tool) => tool !== undefined),
      ...functions.map((declared, at) => readFunction(declared, `functions[${at}]`)),
    ],
  };
}

const nameOf = (choice: unknown): string | undefined =>
  stringOf(member(member(choice, "function"), "name")) ?? stringOf(member(member(choice, "custom"), "name"));

function readAllowed(allowed: unknown): ToolChoice | undefined {
  const mode = member(allowed, "mode");
  const tools = member(allowed, "tools");
  if ((mode !== "auto" && mode !== "required") || !Array.isArray(tools)) return undefined;
  return { kind: mode, names: tools.map(nameOf).filter((name) => name !== undefined) };
}

function readChoice(choice: unknown): ToolChoice | undefined {
  if (choice === "auto" || choice === "none" || choice === "required") return { kind: choice };
  if (member(choice, "type") === "allowed_tools") return readAllowed(member(choice, "allowed_tools"));
  const name = nameOf(choice);
  return name === undefined ? undefined : { kind: "required", names: [name] };
}

/** Reads `tool_choice`, or the deprecated `function_call`, which names its function without a type. */
export function readToolChoice(body: Record<string, unknown>, dropped: Set<string>): Pick<Conversation, "toolChoice"> {
  const field = isGiven(body["tool_choice"]) ? "tool_choice" : "function_call";
  const value = body[field];
  if (!isGiven(value)) return {};
  const toolChoice = readChoice(field === "function_call" && typeof value === "object" ? { function: value } : value);
  if (!toolChoice) dropped.add(field);
  return toolChoice ? { toolChoice } : {};
}
