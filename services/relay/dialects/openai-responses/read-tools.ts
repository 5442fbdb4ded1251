import { UnsupportedError, type Conversation, type Tool, type ToolChoice } from "../conversation.ts";
import { checkToolCount } from "../check-inputs.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { leaveOutTools, type ForeignTool } from "../provider-tools.ts";
import { dropUnknown } from "./read-parts.ts";
import { flatNameOf, flatNamesWhere, type ToolNames } from "./tool-names.ts";

const knownFields = new Set(["type", "name", "description", "parameters", "strict", "format"]);
const callableTypes = new Set<unknown>(["function", "custom"]);

const refusalOf = (path: string, type: unknown): string =>
  `field ${path} of type ${stringOf(type)?.slice(0, 64) ?? "unknown"} cannot be used with this model`;

/** Tools that a provider runs, or that its own models know how to call, mean nothing to another provider. */
function refuseTool(path: string, type: unknown): never {
  throw new UnsupportedError(refusalOf(path, type));
}

/** What is read of `tools`. */
type Reading = { names: ToolNames; tools: Tool[]; foreign: ForeignTool[]; dropped: Set<string> };

/** The namespace that is being read; the first of its tools tells what all of them are for. */
type Group = { namespace: string; about: string | undefined };

const joinTexts = (...texts: (string | undefined)[]): string | undefined =>
  texts.filter((text) => text !== undefined && text !== "").join("\n\n") || undefined;

function addTool(reading: Reading, tool: unknown, path: string, group?: Group): void {
  const type = member(tool, "type");
  if (!callableTypes.has(type)) {
    reading.foreign.push({ type: stringOf(type) ?? "unknown", refusal: refusalOf(path, type), tool });
    return;
  }
  const name = stringOf(member(tool, "name"));
  if (!name) throw new UnsupportedError(`field ${path}.name must be a string`);
  dropUnknown(tool, knownFields, "tools.", reading.dropped);
  const told = stringOf(member(tool, "description"));
  const description = group ? joinTexts(group.about, told) : told;
  const schema = member(tool, type === "custom" ? "format" : "parameters");
  const isStrict = member(tool, "strict");
  reading.tools.push({
    name: flatNameOf(reading.names, { ...(group && { namespace: group.namespace }), name }),
    ...(description !== undefined && { description }),
    ...(schema !== undefined && schema !== null && { schema }),
    ...(type === "custom" ? { isFreeText: true } : typeof isStrict === "boolean" && { isStrict }),
  });
}

function addNamespace(reading: Reading, group: unknown, path: string): void {
  const namespace = stringOf(member(group, "name"));
  const tools = member(group, "tools");
  if (!namespace) throw new UnsupportedError(`field ${path}.name must be a string`);
  if (!Array.isArray(tools)) throw new UnsupportedError(`field ${path}.tools must be an array`);
  const told = stringOf(member(group, "description"));
  const about = told ? `About the tools of ${namespace}: ${told}` : undefined;
  tools.forEach((tool, at) =>
    addTool(reading, tool, `${path}.tools[${at}]`, { namespace, about: at === 0 ? about : undefined }),
  );
}

/**
 * Reads `tools`, those in namespaces by flat names. Leaves out what only the provider runs, where no tool must be
 * called. Throws UnsupportedError for other tools that are not functions of the caller.
 */
export function readTools(
  { tools }: Record<string, unknown>,
  names: ToolNames,
  choice: ToolChoice | undefined,
  dropped: Set<string>,
): Pick<Conversation, "tools" | "webSearch"> {
  if (tools === undefined || tools === null) return { tools: [] };
  if (!Array.isArray(tools)) throw new UnsupportedError("field tools must be an array");
  const reading: Reading = { names, tools: [], foreign: [], dropped };
  tools.forEach((tool, at) => {
    if (member(tool, "type") === "namespace") addNamespace(reading, tool, `tools[${at}]`);
    else addTool(reading, tool, `tools[${at}]`);
  });
  return { tools: reading.tools, ...leaveOutTools(reading.foreign, choice, dropped) };
}

/** Flat names of what a choice names: a tool, or all tools of a namespace. */
function namesOf(choice: unknown, path: string, names: ToolNames): string[] {
  const type = member(choice, "type");
  const name = stringOf(member(choice, "name"));
  const namespace = stringOf(member(choice, "namespace"));
  if (type === "namespace" && name !== undefined) return flatNamesWhere(names, (own) => own.namespace === name);
  if (!callableTypes.has(type) || name === undefined) refuseTool(path, type);
  if (namespace !== undefined) return [flatNameOf(names, { namespace, name })];
  // A choice has no field for the namespace of its tool.
  const grouped = names.taken.has(name) ? [] : flatNamesWhere(names, (own) => own.name === name);
  return grouped.length > 0 ? grouped : [name];
}

function readAllowed(choice: unknown, names: ToolNames): ToolChoice {
  const tools = member(choice, "tools");
  const listed: unknown[] = Array.isArray(tools) ? tools : [];
  checkToolCount("tool_choice.tools", listed.length);
  const allowed = new Set(listed.flatMap((tool, at) => namesOf(tool, `tool_choice.tools[${at}]`, names)));
  return { kind: member(choice, "mode") === "required" ? "required" : "auto", names: [...allowed] };
}

/** Reads `tool_choice` (trap 29). Throws UnsupportedError for the choice of a tool that a provider runs. */
export function readToolChoice(
  { tool_choice: choice }: Record<string, unknown>,
  names: ToolNames,
): Pick<Conversation, "toolChoice"> {
  if (!isGiven(choice)) return {};
  if (choice === "auto" || choice === "none" || choice === "required") return { toolChoice: { kind: choice } };
  if (member(choice, "type") === "allowed_tools") return { toolChoice: readAllowed(choice, names) };
  return { toolChoice: { kind: "required", names: namesOf(choice, "tool_choice", names) } };
}
