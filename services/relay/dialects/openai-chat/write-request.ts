import { stableHash } from "../call-id.ts";
import type { Conversation, Effort, Loss, OutputFormat, Reasoning, Target, Tool } from "../conversation.ts";
import type { WrittenRequest } from "../conversion.ts";
import { member } from "../dialect.ts";
import { freeTextSchema, hasGrammar } from "../free-text.ts";
import { maxTopLogprobs } from "../openai-shared/logprobs.ts";
import { writeShared } from "../openai-shared/shared-settings.ts";
import type { ChatTool } from "./wire.ts";
import type { Writing } from "./write-content.ts";
import { nameOf, writeMessages } from "./write-messages.ts";

type Fields = Record<string, unknown>;

/** The neutral tool keeps a grammar flat, as Responses does; chat puts it one level deeper. */
function nestedFormat(format: unknown): unknown {
  if (member(format, "type") !== "grammar" || member(format, "grammar") !== undefined) return format;
  return { type: "grammar", grammar: { definition: member(format, "definition"), syntax: member(format, "syntax") } };
}

function writeTool(tool: Tool, { quirks, losses }: Writing): ChatTool {
  const { description, schema, isStrict, isFreeText, cache } = tool;
  if (cache) losses.add("cache");
  const name = nameOf(tool, quirks);
  const declared = { name, ...(description !== undefined && { description }) };
  if (isFreeText && quirks.has("no-custom-tools")) {
    if (hasGrammar(schema)) losses.add("toolStrictness");
    return { type: "function", function: { ...declared, parameters: freeTextSchema(tool) } };
  }
  if (isFreeText) {
    return { type: "custom", custom: { ...declared, ...(schema !== undefined && { format: nestedFormat(schema) }) } };
  }
  const parameters = schema === undefined ? {} : { parameters: schema };
  return {
    type: "function",
    function: { ...declared, ...parameters, ...(isStrict !== undefined && { strict: isStrict }) },
  };
}

/** `tool_choice`; a forced choice that the model refuses becomes a free one. */
function writeToolChoice({ toolChoice, tools }: Conversation, { quirks, losses }: Writing): Fields {
  if (!toolChoice) return {};
  const { names } = toolChoice;
  const isRefused = toolChoice.kind === "required" && quirks.has("no-forced-tool");
  if (isRefused) losses.add("toolChoice");
  const kind = isRefused ? "auto" : toolChoice.kind;
  if (kind === "none" || names === undefined) return { tool_choice: kind };
  const chosen = names.map((wanted) => {
    const isFreeText = tools.some((tool) => tool.name === wanted && tool.isFreeText);
    const name = nameOf({ name: wanted, isFreeText }, quirks);
    const isCustom = isFreeText && !quirks.has("no-custom-tools");
    return isCustom ? { type: "custom", custom: { name } } : { type: "function", function: { name } };
  });
  if (kind === "required" && chosen.length === 1) return { tool_choice: chosen[0] };
  return { tool_choice: { type: "allowed_tools", allowed_tools: { mode: kind, tools: chosen } } };
}

/** Tools and how they are chosen; without tools a choice is invalid everywhere, and only a forced one is missed. */
function writeTools(conversation: Conversation, writing: Writing): Fields {
  const { tools, toolChoice, allowsParallelCalls } = conversation;
  if (tools.length === 0) {
    if (toolChoice?.kind === "required") writing.losses.add("toolChoice");
    return {};
  }
  return {
    tools: tools.map((tool) => writeTool(tool, writing)),
    ...writeToolChoice(conversation, writing),
    ...(allowsParallelCalls !== undefined && { parallel_tool_calls: allowsParallelCalls }),
  };
}

/** How much can be written. More than the model writes is refused by providers, and means the same as its maximum. */
function writeMaximum({ maxOutputTokens }: Conversation, target: Target): Fields {
  if (maxOutputTokens === undefined) return {};
  const field = target.quirks.has("max-tokens") ? "max_tokens" : "max_completion_tokens";
  return { [field]: Math.min(maxOutputTokens, target.maxOutputTokens) };
}

/** Sampling; models that think refuse all of it together, penalties included. */
function writeSampling(conversation: Conversation, { quirks, losses }: Writing): Fields {
  const { temperature, topP, topK, presencePenalty, frequencyPenalty } = conversation;
  const wanted = [
    ["temperature", "temperature", temperature],
    ["topP", "top_p", topP],
    ["presencePenalty", "presence_penalty", presencePenalty],
    ["frequencyPenalty", "frequency_penalty", frequencyPenalty],
  ] as const;
  const fields: Fields = {};
  for (const [loss, field, value] of wanted) {
    if (value === undefined) continue;
    if (quirks.has("no-sampling")) losses.add(loss);
    else fields[field] = value;
  }
  if (topK !== undefined) losses.add("topK");
  return fields;
}

/** Tokens and their alternatives; models that refuse sampling refuse them too. */
function writeLogprobs({ topLogprobs }: Conversation, { quirks, losses }: Writing): Fields {
  if (topLogprobs === undefined) return {};
  const isRefused = quirks.has("no-sampling");
  if (isRefused || topLogprobs > maxTopLogprobs) losses.add("logprobs");
  if (isRefused) return {};
  return { logprobs: true, ...(topLogprobs > 0 && { top_logprobs: Math.min(topLogprobs, maxTopLogprobs) }) };
}

// OpenAI refuses more.
const maxStopSequences = 4;

function writeStop({ stopSequences }: Conversation, losses: Set<Loss>): Fields {
  if (stopSequences.length === 0) return {};
  if (stopSequences.length > maxStopSequences) losses.add("stopSequences");
  return { stop: stopSequences.slice(0, maxStopSequences) };
}

/** The effort that a budget of tokens stands for, by the steps of Google's chat endpoint: 1024, 8192, 24576. */
function effortOf({ effort, budgetTokens }: Reasoning): Effort | undefined {
  if (effort !== undefined || budgetTokens === undefined) return effort;
  if (budgetTokens <= 1024) return "low";
  return budgetTokens <= 8192 ? "medium" : "high";
}

function writeReasoning({ reasoning }: Conversation, { quirks, losses }: Writing): Fields {
  const effort = reasoning && effortOf(reasoning);
  // The format shows thoughts, or does not, as the server likes, and cannot be asked to think without an effort.
  if (reasoning?.saysDisplay && effort !== "none") losses.add("reasoningDisplay");
  if (reasoning && effort === undefined && reasoning.isThinking) losses.add("reasoning");
  if (effort === undefined) return {};
  if (!quirks.has("no-thinking")) return { reasoning_effort: effort };
  // Who wants no thinking of a model that does not think misses nothing.
  if (effort !== "none") losses.add("reasoning");
  return {};
}

function writeFormat(format: OutputFormat | undefined): Fields {
  if (!format) return {};
  if (format.kind === "json") return { response_format: { type: "json_object" } };
  const { name = "response", description, schema, isStrict } = format;
  const described = description === undefined ? {} : { description };
  const strict = isStrict === undefined ? {} : { strict: isStrict };
  return { response_format: { type: "json_schema", json_schema: { name, ...described, schema, ...strict } } };
}

const verbosities = new Set(["low", "medium", "high"]);

function writeVerbosity({ verbosity }: Conversation, losses: Set<Loss>): Fields {
  if (verbosity === undefined) return {};
  if (verbosities.has(verbosity)) return { verbosity };
  losses.add("verbosity");
  return {};
}

/** OpenAI takes 64 characters; a longer name is shortened, which tells users apart as well. */
function writeEndUser({ endUser }: Conversation, { quirks }: Writing): Fields {
  if (endUser === undefined || endUser === "") return {};
  const id = endUser.length <= 64 ? endUser : `user_${stableHash(endUser)}`;
  return { [quirks.has("max-tokens") ? "user" : "safety_identifier"]: id };
}

/** A stream's token counts are what is charged: they are always asked for. */
function writeStream({ isStream }: Conversation, { quirks }: Writing): Fields {
  if (!isStream) return {};
  return { stream: true, ...(!quirks.has("no-stream-options") && { stream_options: { include_usage: true } }) };
}

/** Writes a chat completion request. Throws UnsupportedError for what chat cannot be asked at all. */
export function writeRequest(conversation: Conversation, target: Target): WrittenRequest {
  const losses = new Set<Loss>();
  const writing: Writing = { quirks: target.quirks, losses };
  const { seed, choices } = conversation;
  const body = {
    model: target.model,
    messages: writeMessages(conversation.turns, writing),
    ...writeTools(conversation, writing),
    ...writeMaximum(conversation, target),
    ...writeSampling(conversation, writing),
    ...writeLogprobs(conversation, writing),
    ...(seed !== undefined && { seed }),
    ...(choices !== undefined && choices > 1 && { n: choices }),
    ...writeStop(conversation, losses),
    ...writeReasoning(conversation, writing),
    ...writeFormat(conversation.outputFormat),
    ...writeVerbosity(conversation, losses),
    ...writeEndUser(conversation, writing),
    ...writeShared(conversation, target, losses),
    ...writeStream(conversation, writing),
  };
  return { body, losses };
}
