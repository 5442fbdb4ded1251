import { loseShared, type Conversation, type Loss, type Target } from "../conversation.ts";
import type { WrittenRequest } from "../conversion.ts";
import type { CacheControl, RequestMessage, RequestTool, TextBlock } from "./wire.ts";
import { writeSchema } from "./write-schema.ts";
import { writeThinking } from "./write-thinking.ts";
import { writeTools } from "./write-tools.ts";
import { continuesWithoutThinking, writeTurns } from "./write-turns.ts";

/** API spec, Limits: "Default max_tokens 8192". Models that write less get what they can. */
const defaultMaxTokens = 8192;

/** The provider refuses more marks than these in one request. */
const mostCacheMarks = 4;

type Marked = { cache_control?: CacheControl };

/** Keeps the last marks, as each covers all that stands before it; an hour may not come behind five minutes. */
function limitCacheMarks(blocks: Marked[], losses: Set<Loss>): void {
  const marked = blocks.filter((block) => block.cache_control);
  const kept = marked.slice(-mostCacheMarks);
  for (const block of marked.slice(0, -mostCacheMarks)) delete block.cache_control;
  const firstShort = kept.findIndex((block) => !block.cache_control?.ttl);
  const late = firstShort === -1 ? [] : kept.slice(firstShort).filter((block) => block.cache_control?.ttl);
  for (const block of late) block.cache_control = { type: "ephemeral" };
  if (kept.length < marked.length || late.length > 0) losses.add("cache");
}

function cacheable(tools: RequestTool[], system: TextBlock[], messages: RequestMessage[]): Marked[] {
  const blocks = messages.flatMap(({ content }) => content);
  const inner = blocks.flatMap((block): Marked[] =>
    block.type === "tool_result" ? [...(block.content ?? []), block] : [block as Marked],
  );
  return [...tools, ...system, ...inner];
}

type Sampling = { temperature?: number; top_p?: number; top_k?: number };

/**
 * Sampling as the model takes it. Temperatures of other formats reach 2, here 1 is the most. Newer models take either
 * a temperature or top_p; the one that is not 1 says more, as 1 is the default of both and nothing is lost with it.
 */
function writeSampling({ temperature, topP, topK }: Conversation, isTaken: boolean, losses: Set<Loss>): Sampling {
  const isWarmthDefault = temperature === undefined || temperature === 1;
  const isTopPDefault = topP === undefined || topP === 1;
  const isTopPChosen = topP !== undefined && (temperature === undefined || (isWarmthDefault && !isTopPDefault));
  if (!isTaken && !isWarmthDefault) losses.add("temperature");
  if (!(isTaken && isTopPChosen) && !isTopPDefault) losses.add("topP");
  if (!isTaken && topK !== undefined) losses.add("topK");
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) losses.add("temperature");
  if (!isTaken) return {};
  return {
    ...(isTopPChosen && { top_p: topP }),
    ...(!isTopPChosen && temperature !== undefined && { temperature: Math.min(Math.max(temperature, 0), 1) }),
    ...(topK !== undefined && { top_k: topK }),
  };
}

/** What this format has no field for. Penalties of 0 and one choice are what it does anyway. */
function nameUnsaid(conversation: Conversation, losses: Set<Loss>): void {
  const { presencePenalty, frequencyPenalty, choices, seed, topLogprobs, verbosity } = conversation;
  loseShared(conversation, losses);
  if (presencePenalty) losses.add("presencePenalty");
  if (frequencyPenalty) losses.add("frequencyPenalty");
  if (choices !== undefined && choices > 1) losses.add("choices");
  if (seed !== undefined) losses.add("seed");
  if (topLogprobs !== undefined) losses.add("logprobs");
  if (verbosity !== undefined) losses.add("verbosity");
}

type OutputConfig = { output_config?: Record<string, unknown> };

/** The schema of the answer; JSON of any shape this format cannot ask for. */
function writeOutputConfig(
  { outputFormat }: Conversation,
  { takesOutputFormat = false }: Target,
  config: Record<string, unknown> | undefined,
  losses: Set<Loss>,
): OutputConfig {
  const isSaid = takesOutputFormat && outputFormat?.kind === "schema";
  if (outputFormat && !isSaid) losses.add("outputFormat");
  const { description } = isSaid ? outputFormat : {};
  const described = description === undefined ? {} : { description };
  const format = isSaid && {
    type: "json_schema",
    schema: { ...described, ...(writeSchema(outputFormat.schema) as object) },
  };
  return config || format ? { output_config: { ...config, ...(format && { format }) } } : {};
}

/** Stop sequences of blanks alone are refused by the provider. */
function writeStopSequences(sequences: string[], losses: Set<Loss>): { stop_sequences?: string[] } {
  const taken = sequences.filter((sequence) => sequence.trim() !== "");
  if (taken.length < sequences.length) losses.add("stopSequences");
  return taken.length > 0 ? { stop_sequences: taken } : {};
}

/**
 * Writes a Messages request for version 2023-06-01. Its fields are always in the same order and never depend on chance,
 * so that the provider's cache recognizes a conversation that goes on. Throws UnsupportedError for audio, files by id
 * and media of types that the provider does not take.
 */
export function writeRequest(conversation: Conversation, target: Target): WrittenRequest {
  const losses = new Set<Loss>();
  const { quirks } = target;
  const maxTokens = conversation.maxOutputTokens ?? Math.min(defaultMaxTokens, target.maxOutputTokens);
  const { system, messages } = writeTurns(conversation.turns, { losses, takesThinking: !quirks.has("no-thinking") });
  const canThink = !continuesWithoutThinking(messages);
  const thinking = writeThinking(conversation.reasoning, target, { maxTokens, canThink, losses });
  const isForceable = !thinking.isOn && !quirks.has("no-forced-tool");
  const { tools = [], ...choice } = writeTools(conversation, messages, isForceable, losses);
  limitCacheMarks(cacheable(tools, system, messages), losses);
  nameUnsaid(conversation, losses);
  const { endUser, isStream } = conversation;
  const body = {
    model: target.model,
    max_tokens: maxTokens,
    ...thinking.setting,
    ...writeOutputConfig(conversation, target, thinking.setting.output_config, losses),
    ...writeSampling(conversation, !thinking.isOn && !quirks.has("no-sampling"), losses),
    ...writeStopSequences(conversation.stopSequences, losses),
    ...(endUser !== undefined && { metadata: { user_id: endUser } }),
    ...(tools.length > 0 && { tools }),
    ...choice,
    ...(system.length > 0 && { system }),
    messages,
    ...(isStream && { stream: true }),
  };
  return { body, losses };
}
