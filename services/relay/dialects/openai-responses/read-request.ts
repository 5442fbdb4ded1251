import { efforts, UnsupportedError, type Conversation, type OutputFormat, type Reasoning } from "../conversation.ts";
import type { ReadRequest } from "../conversion.ts";
import { isGiven, member, positive, stringOf } from "../dialect.ts";
import { readShared, sharedFields } from "../openai-shared/shared-settings.ts";
import { readTurns } from "./read-input.ts";
import { dropUnknown } from "./read-parts.ts";
import { readToolChoice, readTools } from "./read-tools.ts";
import { nameTools } from "./tool-names.ts";

// What these name is stored at one provider, or is answered later.
const storedFields = ["previous_response_id", "conversation", "prompt"] as const;

const knownFields = new Set([
  "model",
  "stream",
  "stream_options",
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "max_output_tokens",
  "temperature",
  "top_p",
  "top_logprobs",
  "text",
  "reasoning",
  "include",
  "user",
  "safety_identifier",
  ...sharedFields,
]);

// Values that ask for what happens anyway.
const defaults: Record<string, unknown> = {
  store: false,
  background: false,
  truncation: "disabled",
};

const numberOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined;

const booleanOf = (value: unknown): boolean | undefined => (typeof value === "boolean" ? value : undefined);

// Fields that are carried as they are.
const plainFields = [
  ["parallel_tool_calls", "allowsParallelCalls", booleanOf],
  ["max_output_tokens", "maxOutputTokens", numberOf],
  ["temperature", "temperature", numberOf],
  ["top_p", "topP", numberOf],
  ["user", "endUser", stringOf],
  // It replaces `user`.
  ["safety_identifier", "endUser", stringOf],
] as const;

/** Reads fields that are carried as they are; names those whose value cannot be. */
function readPlain(body: Record<string, unknown>, dropped: Set<string>): Partial<Conversation> {
  const settings: Record<string, unknown> = {};
  for (const [field, name, read] of plainFields) {
    const value = read(body[field]);
    if (value !== undefined) settings[name] = value;
    else if (isGiven(body[field])) dropped.add(field);
  }
  return settings;
}

function readFormat(format: unknown, dropped: Set<string>): OutputFormat | undefined {
  const type = member(format, "type");
  if (type === "json_object") return { kind: "json" };
  if (type !== "json_schema") {
    if (isGiven(format) && type !== "text") dropped.add("text.format");
    return undefined;
  }
  const name = stringOf(member(format, "name"));
  const description = stringOf(member(format, "description"));
  const isStrict = member(format, "strict");
  return {
    kind: "schema",
    schema: member(format, "schema"),
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(typeof isStrict === "boolean" && { isStrict }),
  };
}

const textFields = new Set(["format", "verbosity"]);

function readText(text: unknown, dropped: Set<string>): Pick<Conversation, "outputFormat" | "verbosity"> {
  dropUnknown(text, textFields, "text.", dropped);
  const outputFormat = readFormat(member(text, "format"), dropped);
  const verbosity = stringOf(member(text, "verbosity"));
  return { ...(outputFormat && { outputFormat }), ...(verbosity !== undefined && { verbosity }) };
}

const reasoningFields = new Set(["effort", "summary", "generate_summary"]);

function readReasoning(reasoning: unknown, dropped: Set<string>): Pick<Conversation, "reasoning"> {
  dropUnknown(reasoning, reasoningFields, "reasoning.", dropped);
  const given = member(reasoning, "effort");
  const effort = efforts.find((name) => name === given);
  if (isGiven(given) && effort === undefined) dropped.add("reasoning.effort");
  const summary = member(reasoning, "summary") ?? member(reasoning, "generate_summary");
  // How long a summary is wanted nobody else can be told.
  if (isGiven(summary) && summary !== "auto") dropped.add("reasoning.summary");
  const read: Reasoning = { ...(effort && { effort }), ...(isGiven(summary) && { isShown: true, saysDisplay: true }) };
  return Object.keys(read).length > 0 ? { reasoning: read } : {};
}

const logprobs = "message.output_text.logprobs";
// Encrypted reasoning goes to the caller whether it was asked for or not.
const carriedIncludes = new Set<unknown>(["reasoning.encrypted_content", logprobs]);

function readLogprobs(body: Record<string, unknown>, dropped: Set<string>): Pick<Conversation, "topLogprobs"> {
  const include: unknown[] = Array.isArray(body["include"]) ? body["include"] : [];
  if (include.some((name) => !carriedIncludes.has(name))) dropped.add("include");
  const count = positive(body["top_logprobs"]);
  if (isGiven(body["top_logprobs"]) && body["top_logprobs"] !== (count ?? 0)) dropped.add("top_logprobs");
  if (include.includes(logprobs)) return { topLogprobs: count ?? 0 };
  return count ? { topLogprobs: count } : {};
}

/**
 * Reads a Responses request. Throws UnsupportedError for what is stored at one provider (earlier responses, items and
 * files by id) and for tools of a provider's own that must be called: only that provider can serve them.
 */
export function readRequest(body: Record<string, unknown>): ReadRequest {
  for (const field of storedFields) {
    if (isGiven(body[field])) throw new UnsupportedError(`field ${field} cannot be used with this model`);
  }
  if (body["background"] === true) throw new UnsupportedError("field background must not be true");
  const dropped = new Set<string>();
  for (const [name, value] of Object.entries(body)) {
    if (!knownFields.has(name) && isGiven(value) && defaults[name] !== value) dropped.add(name);
  }
  const names = nameTools(body["tools"]);
  const choice = readToolChoice(body, names);
  const conversation: Conversation = {
    turns: readTurns(body, names, dropped),
    ...readTools(body, names, choice.toolChoice, dropped),
    stopSequences: [],
    ...choice,
    ...readPlain(body, dropped),
    ...readLogprobs(body, dropped),
    ...readReasoning(body["reasoning"], dropped),
    ...readText(body["text"], dropped),
    ...readShared(body, dropped),
    isStream: body["stream"] === true,
    wantsStreamUsage: true,
  };
  return { conversation, dropped };
}
