import { efforts, UnsupportedError, type Conversation, type OutputFormat } from "../conversation.ts";
import type { ReadRequest } from "../conversion.ts";
import { isGiven, member, positive, stringOf } from "../dialect.ts";
import { readShared, sharedFields } from "../openai-shared/shared-settings.ts";
import { readMessages } from "./read-messages.ts";
import { asksFunctionCall, readToolChoice, readTools } from "./read-tools.ts";

type Body = Record<string, unknown>;
type Settings = Partial<Conversation>;

/** Fields that are one number in both. `top_k` is no field of OpenAI's, but of many servers that speak chat. */
const numberFields = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
  seed: "seed",
} as const satisfies Record<string, keyof Conversation>;

// Read below, or about the transport; every other field is named as dropped.
const knownFields = new Set([
  ...Object.keys(numberFields),
  "model",
  "messages",
  "stream",
  "stream_options",
  "tools",
  "functions",
  "tool_choice",
  "function_call",
  "parallel_tool_calls",
  "max_completion_tokens",
  "max_tokens",
  "n",
  "stop",
  "logprobs",
  "top_logprobs",
  "reasoning_effort",
  "verbosity",
  "response_format",
  "safety_identifier",
  "user",
  "modalities",
  ...sharedFields,
]);

// Values that ask for what happens anyway.
const defaults: Record<string, unknown> = { store: false };

function readNumbers(body: Body, dropped: Set<string>): Settings {
  const settings: Settings = {};
  for (const [field, key] of Object.entries(numberFields)) {
    const value = body[field];
    if (typeof value === "number") settings[key] = value;
    else if (isGiven(value)) dropped.add(field);
  }
  return settings;
}

/** The newer name of the maximum wins (trap 31); the older is lost when it says something else. */
function readMaximum(body: Body, dropped: Set<string>): Settings {
  const fields = ["max_completion_tokens", "max_tokens"] as const;
  const [newer, older] = fields.map((field) => positive(body[field]));
  const maxOutputTokens = newer ?? older;
  fields.forEach((field) => {
    if (isGiven(body[field]) && positive(body[field]) !== maxOutputTokens) dropped.add(field);
  });
  return maxOutputTokens === undefined ? {} : { maxOutputTokens };
}

function readStop(body: Body, dropped: Set<string>): string[] {
  const { stop } = body;
  const list: unknown[] = Array.isArray(stop) ? stop : [stop];
  const sequences = list.filter((sequence): sequence is string => typeof sequence === "string" && sequence !== "");
  if (isGiven(stop) && sequences.length < list.length) dropped.add("stop");
  return sequences;
}

function readLogprobs(body: Body, dropped: Set<string>): Settings {
  const { logprobs, top_logprobs: count } = body;
  if (logprobs !== true) {
    for (const field of ["logprobs", "top_logprobs"]) if (body[field] && isGiven(body[field])) dropped.add(field);
    return {};
  }
  const topLogprobs = positive(count) ?? 0;
  if (isGiven(count) && count !== topLogprobs) dropped.add("top_logprobs");
  return { topLogprobs };
}

function readFormat(format: unknown): OutputFormat | undefined {
  if (member(format, "type") === "json_object") return { kind: "json" };
  const wanted = member(format, "json_schema");
  const schema = member(wanted, "schema");
  if (member(format, "type") !== "json_schema" || typeof schema !== "object" || schema === null) return undefined;
  const [name, description] = [stringOf(member(wanted, "name")), stringOf(member(wanted, "description"))];
  const isStrict = member(wanted, "strict");
  return {
    kind: "schema",
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    schema,
    ...(typeof isStrict === "boolean" && { isStrict }),
  };
}

function readOutputFormat(body: Body, dropped: Set<string>): Settings {
  const { response_format: format } = body;
  if (!isGiven(format) || member(format, "type") === "text") return {};
  const outputFormat = readFormat(format);
  if (!outputFormat) dropped.add("response_format");
  return outputFormat ? { outputFormat } : {};
}

function readReasoning(body: Body, dropped: Set<string>): Settings {
  const { reasoning_effort: wanted, verbosity } = body;
  const effort = efforts.find((name) => name === wanted);
  if (isGiven(wanted) && !effort) dropped.add("reasoning_effort");
  if (isGiven(verbosity) && typeof verbosity !== "string") dropped.add("verbosity");
  return { ...(effort && { reasoning: { effort } }), ...(typeof verbosity === "string" && verbosity && { verbosity }) };
}

/**
 * Who the caller's user is: `safety_identifier`, else `user`, its older name. Not prompt_cache_key: a key that many
 * users share must not make one user of them in a provider's eyes.
 */
function readEndUser(body: Body, dropped: Set<string>): Settings {
  const endUser = [body["safety_identifier"], body["user"]].find(
    (name): name is string => typeof name === "string" && name !== "",
  );
  for (const field of ["safety_identifier", "user"]) {
    if (isGiven(body[field]) && body[field] !== endUser) dropped.add(field);
  }
  return endUser === undefined ? {} : { endUser };
}

function readSwitches(body: Body, dropped: Set<string>): Settings {
  const { parallel_tool_calls: parallel, n } = body;
  const choices = positive(n);
  if (isGiven(n) && choices === undefined) dropped.add("n");
  if (isGiven(parallel) && typeof parallel !== "boolean") dropped.add("parallel_tool_calls");
  return {
    ...(typeof parallel === "boolean" && { allowsParallelCalls: parallel }),
    ...(asksFunctionCall(body) && { allowsParallelCalls: false }),
    ...(choices !== undefined && { choices }),
  };
}

/** What no other format can do at all. Throws UnsupportedError that names the field. */
function refuse(body: Body, dropped: Set<string>): void {
  const { web_search_options: search, modalities } = body;
  // Even without settings it asks for a search.
  if (search !== undefined && search !== null) dropped.add("web_search_options");
  const isText = (modality: unknown): boolean => modality === "text";
  if (!isGiven(modalities) || (Array.isArray(modalities) && modalities.every(isText))) return;
  if (!Array.isArray(modalities)) dropped.add("modalities");
  else throw new UnsupportedError("field modalities must be text only for this model");
}

/** Reads a chat completion request. Throws UnsupportedError for what no other dialect can carry. */
export function readRequest(body: Body): ReadRequest {
  const dropped = new Set<string>();
  refuse(body, dropped);
  const choice = readToolChoice(body, dropped);
  const conversation: Conversation = {
    turns: readMessages(body["messages"], dropped),
    ...readTools(body, choice.toolChoice, dropped),
    ...choice,
    ...readSwitches(body, dropped),
    ...readMaximum(body, dropped),
    ...readNumbers(body, dropped),
    stopSequences: readStop(body, dropped),
    ...readLogprobs(body, dropped),
    ...readReasoning(body, dropped),
    ...readOutputFormat(body, dropped),
    ...readEndUser(body, dropped),
    ...readShared(body, dropped),
    isStream: body["stream"] === true,
    wantsStreamUsage: member(body["stream_options"], "include_usage") === true,
  };
  for (const [field, value] of Object.entries(body)) {
    if (isGiven(value) && !knownFields.has(field) && defaults[field] !== value) dropped.add(field);
  }
  return { conversation, dropped };
}
