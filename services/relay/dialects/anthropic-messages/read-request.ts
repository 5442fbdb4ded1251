import {
  efforts,
  UnsupportedError,
  type Conversation,
  type Effort,
  type OutputFormat,
  type Reasoning,
  type Tool,
  type ToolChoice,
  type Turn,
} from "../conversation.ts";
import type { ReadRequest } from "../conversion.ts";
import { isGiven, member, stringOf } from "../dialect.ts";
import { leaveOutTools, type ForeignTool } from "../provider-tools.ts";
import { nameOthers, readAssistantContent, readCache, readSystemContent, readUserContent } from "./read-content.ts";

/** Fields that are read here, that say how the answer travels, or that the relay removes in any case (API spec). */
const handledFields = new Set([
  "model",
  "stream",
  "inference_geo",
  "service_tier",
  "speed",
  "system",
  "messages",
  "tools",
  "cache_control",
  "stop_sequences",
  "metadata",
  "output_config",
  "max_tokens",
]);

/** Reads a setting into the conversation; undefined when its value is not one that can be carried. */
type SettingReader = (value: unknown) => Partial<Conversation> | undefined;

function numberSetting(name: "temperature" | "topP" | "topK"): SettingReader {
  return (value) => (typeof value === "number" ? { [name]: value } : undefined);
}

const settings: Record<string, SettingReader> = {
  temperature: numberSetting("temperature"),
  top_p: numberSetting("topP"),
  top_k: numberSetting("topK"),
  tool_choice: readToolChoice,
  thinking: readThinking,
  // Name of output_config.format while it was a beta.
  output_format: readFormat,
};

function readToolChoice(choice: unknown): Partial<Conversation> | undefined {
  const name = stringOf(member(choice, "name"));
  const choices = new Map<unknown, ToolChoice>([
    ["auto", { kind: "auto" }],
    ["none", { kind: "none" }],
    ["any", { kind: "required" }],
    ["tool", { kind: "required", ...(name !== undefined && { names: [name] }) }],
  ]);
  const toolChoice = choices.get(member(choice, "type"));
  const isSingle = member(choice, "disable_parallel_tool_use") === true;
  return toolChoice && { toolChoice, ...(isSingle && { allowsParallelCalls: false }) };
}

/** Thoughts are wanted unless `display` says otherwise: who turns thinking on in this format sees it. */
function readThinking(thinking: unknown): { reasoning: Reasoning } | undefined {
  const display = member(thinking, "display");
  const shown = { isShown: display !== "omitted", ...(isGiven(display) && { saysDisplay: true as const }) };
  const budgetTokens = member(thinking, "budget_tokens");
  switch (member(thinking, "type")) {
    case "enabled":
      return { reasoning: { ...(typeof budgetTokens === "number" && { budgetTokens }), ...shown } };
    case "adaptive":
      return { reasoning: { ...shown, isThinking: true } };
    case "disabled":
      return { reasoning: { effort: "none" } };
    default:
      return undefined;
  }
}

/** Names what of thinking only this format has: updates on the way, and blocks bound to their conversation. */
function nameForeignThinking(thinking: unknown, dropped: Set<string>): void {
  nameOthers(thinking, ["type", "budget_tokens", "display"], "thinking.", dropped);
  if (member(thinking, "display") === "updates") dropped.add("thinking.display");
}

function readFormat(format: unknown): { outputFormat: OutputFormat } | undefined {
  const schema = member(format, "schema");
  if (member(format, "type") !== "json_schema" || typeof schema !== "object" || schema === null) return undefined;
  return { outputFormat: { kind: "schema", schema } };
}

function isEffort(value: unknown): value is Effort {
  return efforts.some((effort) => effort === value);
}

/** Effort says how hard to think where thinking is not turned off. */
function readOutputConfig(config: unknown, conversation: Conversation, dropped: Set<string>): void {
  nameOthers(config, ["effort", "format"], "output_config.", dropped);
  const effort = member(config, "effort") ?? undefined;
  const format = member(config, "format") ?? undefined;
  const { reasoning } = conversation;
  if (isEffort(effort)) conversation.reasoning = { effort, ...reasoning };
  else if (effort !== undefined) dropped.add("output_config.effort");
  const outputFormat = readFormat(format);
  if (outputFormat) Object.assign(conversation, outputFormat);
  else if (format !== undefined) dropped.add("output_config.format");
}

function readTool(tool: unknown, dropped: Set<string>): Tool {
  const name = stringOf(member(tool, "name"));
  if (name === undefined) throw new UnsupportedError("tools: a tool has no name");
  const carried = ["type", "name", "description", "input_schema", "strict", "cache_control"];
  nameOthers(tool, carried, "tools.", dropped);
  const description = stringOf(member(tool, "description"));
  const schema = member(tool, "input_schema") ?? undefined;
  const strict = member(tool, "strict");
  return {
    name,
    ...(description !== undefined && { description }),
    ...(schema !== undefined && { schema }),
    ...(typeof strict === "boolean" && { isStrict: strict }),
    ...readCache(tool),
  };
}

const typeOf = (tool: unknown): string => stringOf(member(tool, "type") ?? "custom") ?? "unknown";

/** The caller's own tools. Others are left out where no tool must be called, and named. */
function readTools(
  tools: unknown,
  choice: ToolChoice | undefined,
  dropped: Set<string>,
): Pick<Conversation, "tools" | "webSearch"> {
  const declared: unknown[] = Array.isArray(tools) ? tools : [];
  const foreign = declared.flatMap((tool): ForeignTool[] => {
    const type = typeOf(tool);
    const refusal = `tools: the type "${type.slice(0, 64)}" cannot be used with this model`;
    return type === "custom" ? [] : [{ type, name: stringOf(member(tool, "name")), refusal, tool }];
  });
  return {
    ...leaveOutTools(foreign, choice, dropped),
    tools: declared.filter((tool) => typeOf(tool) === "custom").map((tool) => readTool(tool, dropped)),
  };
}

function blocksOf(content: unknown, field: string): unknown[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  if (!Array.isArray(content)) throw new UnsupportedError(`${field}: content must be a string or an array of blocks`);
  return content;
}

function readTurn(message: unknown, dropped: Set<string>): Turn {
  const role = member(message, "role");
  nameOthers(message, ["role", "content"], "messages.", dropped);
  const content = member(message, "content");
  // Instructions without words set something for the turns to come, which is named.
  const blocks = blocksOf(role === "system" ? (content ?? "") : content, "messages");
  if (role === "user") return { role, parts: readUserContent(blocks, dropped) };
  if (role === "assistant") return { role, parts: readAssistantContent(blocks, dropped) };
  if (role === "system") return { role, parts: readSystemContent(blocks, dropped) };
  throw new UnsupportedError("messages: role must be user, assistant or system");
}

function readTurns(body: Record<string, unknown>, dropped: Set<string>): Turn[] {
  const messages = body["messages"];
  if (!Array.isArray(messages)) throw new UnsupportedError("messages: must be an array");
  const system = readSystemContent(blocksOf(body["system"] ?? "", "system"), dropped);
  const turns = messages
    .map((message) => readTurn(message, dropped))
    .filter(({ role, parts }) => role !== "system" || parts.length > 0);
  if (system.length > 0) turns.unshift({ role: "system", parts: system });
  return turns;
}

/** At the top level, cache_control marks the last block that can be marked. */
function markLast(turns: Turn[], body: Record<string, unknown>): void {
  const last = turns.flatMap(({ parts }) => parts).findLast(({ kind }) => kind !== "thinking");
  if (last) Object.assign(last, readCache(body));
}

/** 0 only warms a cache at the provider, which would be an answer of any length elsewhere. */
function readLimit(value: unknown, dropped: Set<string>): { maxOutputTokens?: number } {
  if (value === 0) throw new UnsupportedError("max_tokens: 0 cannot be asked of this model");
  if (typeof value === "number" && value > 0) return { maxOutputTokens: Math.ceil(value) };
  if (value !== undefined && value !== null) dropped.add("max_tokens");
  return {};
}

function readStopSequences(value: unknown, dropped: Set<string>): string[] {
  const found: unknown[] = Array.isArray(value) ? value : [];
  const stopSequences = found.filter((text) => typeof text === "string");
  if (stopSequences.length < found.length || (value && !Array.isArray(value))) dropped.add("stop_sequences");
  return stopSequences;
}

function readSettings(body: Record<string, unknown>, conversation: Conversation, dropped: Set<string>): void {
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined || handledFields.has(name)) continue;
    const setting = Object.hasOwn(settings, name) ? settings[name]?.(value) : undefined;
    if (setting) Object.assign(conversation, setting);
    else dropped.add(name);
  }
}

/** What is kept at the provider, or run by it while a tool must be called. */
function refuseForeign({ mcp_servers: servers, container, tool_choice: choice }: Record<string, unknown>): void {
  if (isGiven(servers) && member(choice, "type") === "any") {
    throw new UnsupportedError("mcp_servers: cannot be used with this model");
  }
  if (isGiven(container)) throw new UnsupportedError("container: cannot be used with this model");
}

/**
 * Reads a Messages request. Throws UnsupportedError for what only a provider of this format can do: server tools that
 * must be called, what they left in the conversation, files by id.
 */
export function readRequest(body: Record<string, unknown>): ReadRequest {
  const dropped = new Set<string>();
  refuseForeign(body);
  const conversation: Conversation = {
    turns: readTurns(body, dropped),
    ...readTools(body["tools"], readToolChoice(body["tool_choice"])?.toolChoice, dropped),
    ...readLimit(body["max_tokens"], dropped),
    stopSequences: readStopSequences(body["stop_sequences"], dropped),
    isStream: body["stream"] === true,
    wantsStreamUsage: true,
  };
  readSettings(body, conversation, dropped);
  nameForeignThinking(body["thinking"], dropped);
  readOutputConfig(body["output_config"], conversation, dropped);
  markLast(conversation.turns, body);
  const { metadata } = body;
  const endUser = stringOf(member(metadata, "user_id"));
  if (endUser !== undefined) conversation.endUser = endUser;
  nameOthers(metadata, ["user_id"], "metadata.", dropped);
  return { conversation, dropped };
}
