import { UnsayableError, type Conversation, type Tool, type ToolChoice } from "../conversation.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { dropUnknown } from "./read-parts.ts";

const knownFields = new Set(["type", "name", "description", "parameters", "strict", "format"]);
const callableTypes = new Set<unknown>(["function", "custom"]);

/** Tools that a provider runs, or that its own models know how to call, mean nothing to another provider. */
function refuseTool(path: string, type: unknown): never {
  throw new UnsayableError(`field ${path} of type ${stringOf(type) ?? "unknown"} cannot be used with this model`);
}

function readTool(tool: unknown, path: string, dropped: Set<string>): Tool {
  const type = member(tool, "type");
  if (!callableTypes.has(type)) refuseTool(path, type);
  const name = stringOf(member(tool, "name"));
  if (!name) throw new UnsayableError(`field ${path}.name must be a string`);
  dropUnknown(tool, knownFields, "tools.", dropped);
  const description = stringOf(member(tool, "description"));
  const schema = member(tool, type === "custom" ? "format" : "parameters");
  const isStrict = member(tool, "strict");
  return {
    name,
    ...(description !== undefined && { description }),
    ...(schema !== undefined && schema !== null && { schema }),
    ...(type === "custom" ? { isFreeText: true } : typeof isStrict === "boolean" && { isStrict }),
  };
}

/** Reads `tools`. Throws UnsayableError for tools that are not functions of the caller. */
export function readTools({ tools }: Record<string, unknown>, dropped: Set<string>): Tool[] {
  if (tools === undefined || tools === null) return [];
  if (!Array.isArray(tools)) throw new UnsayableError("field tools must be an array");
  return tools.map((tool, at) => readTool(tool, `tools[${at}]`, dropped));
}

function nameOf(choice: unknown, path: string): string {
  const type = member(choice, "type");
  const name = stringOf(member(choice, "name"));
  if (!callableTypes.has(type) || name === undefined) refuseTool(path, type);
  return name;
}

function readAllowed(choice: unknown): ToolChoice {
  const tools = member(choice, "tools");
  const names = Array.isArray(tools) ? tools.map((tool, at) => nameOf(tool, `tool_choice.tools[${at}]`)) : [];
  return { kind: member(choice, "mode") === "required" ? "required" : "auto", names };
}

/** Reads `tool_choice` (trap 29). Throws UnsayableError for the choice of a tool that a provider runs. */
export function readToolChoice({ tool_choice: choice }: Record<string, unknown>): Pick<Conversation, "toolChoice"> {
  if (!isGiven(choice)) return {};
  if (choice === "auto" || choice === "none" || choice === "required") return { toolChoice: { kind: choice } };
  if (member(choice, "type") === "allowed_tools") return { toolChoice: readAllowed(choice) };
  return { toolChoice: { kind: "required", names: [nameOf(choice, "tool_choice")] } };
}
