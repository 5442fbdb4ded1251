import { stableHash } from "../call-id.ts";
import type { Conversation, Effort, Loss, OutputFormat, Reasoning, Target } from "../conversation.ts";
import type { WrittenRequest } from "../conversion.ts";
import { maxTopLogprobs } from "../openai-shared/logprobs.ts";
import { writeShared } from "../openai-shared/shared-settings.ts";
import { writeInput } from "./write-input.ts";
import { writeTools } from "./write-tools.ts";

type Fields = Record<string, unknown>;

// The format has no fields for these.
const unsaid: readonly (readonly [keyof Conversation, Loss])[] = [
  ["topK", "topK"],
  ["presencePenalty", "presencePenalty"],
  ["frequencyPenalty", "frequencyPenalty"],
  ["seed", "seed"],
];

function writeSampling({ temperature, topP }: Conversation, { quirks }: Target, losses: Set<Loss>): Fields {
  if (!quirks.has("no-sampling")) {
    return { ...(temperature !== undefined && { temperature }), ...(topP !== undefined && { top_p: topP }) };
  }
  if (temperature !== undefined) losses.add("temperature");
  if (topP !== undefined) losses.add("topP");
  return {};
}

/** The effort that a budget is worth: the budgets that Google's chat endpoint gives to efforts, turned around. */
function effortFor(budgetTokens: number): Effort {
  if (budgetTokens <= 0) return "none";
  if (budgetTokens <= 1024) return "low";
  return budgetTokens <= 8192 ? "medium" : "high";
}

/** Reasoning; `include` has its state come back encrypted, as nothing is stored. */
function writeReasoning(
  reasoning: Reasoning | undefined,
  { quirks }: Target,
  losses: Set<Loss>,
  include: string[],
): Fields {
  const { effort, budgetTokens, isShown } = reasoning ?? {};
  const wanted = effort ?? (budgetTokens === undefined ? undefined : effortFor(budgetTokens));
  if (quirks.has("no-thinking")) {
    // A model that does not think refuses to be asked for the state of its thoughts.
    if (wanted !== undefined && wanted !== "none") losses.add("reasoning");
    return {};
  }
  include.push("reasoning.encrypted_content");
  const fields = { ...(wanted && { effort: wanted }), ...(isShown && wanted !== "none" && { summary: "auto" }) };
  return Object.keys(fields).length > 0 ? { reasoning: fields } : {};
}

/** Tokens and their alternatives; models that refuse sampling refuse them too. */
function writeLogprobs(
  { topLogprobs }: Conversation,
  { quirks }: Target,
  losses: Set<Loss>,
  include: string[],
): Fields {
  if (topLogprobs === undefined) return {};
  const isRefused = quirks.has("no-sampling");
  if (isRefused || topLogprobs > maxTopLogprobs) losses.add("logprobs");
  if (isRefused) return {};
  include.push("message.output_text.logprobs");
  return topLogprobs > 0 ? { top_logprobs: Math.min(topLogprobs, maxTopLogprobs) } : {};
}

function writeFormat(format: OutputFormat): Fields {
  if (format.kind === "json") return { type: "json_object" };
  const { name = "answer", description, schema, isStrict } = format;
  return {
    type: "json_schema",
    name,
    ...(description !== undefined && { description }),
    schema,
    ...(isStrict !== undefined && { strict: isStrict }),
  };
}

const verbosities = new Set(["low", "medium", "high"]);

function writeText({ outputFormat, verbosity }: Conversation, losses: Set<Loss>): Fields {
  const isKnown = verbosity !== undefined && verbosities.has(verbosity);
  if (verbosity !== undefined && !isKnown) losses.add("verbosity");
  const text = { ...(outputFormat && { format: writeFormat(outputFormat) }), ...(isKnown && { verbosity }) };
  return Object.keys(text).length > 0 ? { text } : {};
}

/** The provider takes 64 characters, and advises to hash what names a person. */
function writeEndUser(endUser: string | undefined): Fields {
  if (endUser === undefined) return {};
  return { safety_identifier: endUser.length > 64 ? stableHash(endUser) : endUser };
}

/**
 * Writes a Responses request that stores nothing. Throws UnsupportedError for parts that the format has no place for.
 */
export function writeRequest(conversation: Conversation, target: Target): WrittenRequest {
  const { maxOutputTokens, stopSequences, choices = 1, isStream } = conversation;
  const losses = new Set<Loss>();
  for (const [name, loss] of unsaid) if (conversation[name] !== undefined) losses.add(loss);
  if (stopSequences.length > 0) losses.add("stopSequences");
  if (choices > 1) losses.add("choices");
  // More than the model can write it refuses to be asked for.
  const limit = maxOutputTokens === undefined ? undefined : Math.min(maxOutputTokens, target.maxOutputTokens);
  const include: string[] = [];
  const body = {
    model: target.model,
    input: writeInput(conversation.turns, target, losses),
    ...writeTools(conversation, target, losses),
    ...writeText(conversation, losses),
    ...writeReasoning(conversation.reasoning, target, losses, include),
    ...writeLogprobs(conversation, target, losses, include),
    ...(include.length > 0 && { include }),
    ...(limit !== undefined && { max_output_tokens: limit }),
    ...writeSampling(conversation, target, losses),
    ...writeEndUser(conversation.endUser),
    ...writeShared(conversation, target, losses),
    store: false,
    ...(isStream && { stream: true }),
  };
  return { body, losses };
}
