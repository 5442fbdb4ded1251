import { loseShared, type Conversation, type Loss, type Target } from "../conversation.ts";
import type { WrittenRequest } from "../conversion.ts";
import { writeTurns } from "./contents.ts";
import { traitsOf, type Traits } from "./models.ts";
import { reduceSchema } from "./schema.ts";
import { writeThinking } from "./thinking.ts";
import { writeTools } from "./tools.ts";

type Fields = Record<string, unknown>;

// What the provider takes at most.
const maxStopSequences = 5;
const maxSeed = 2_147_483_647;

function writeFormat({ outputFormat, tools }: Conversation, traits: Traits, losses: Set<Loss>): Fields {
  if (!outputFormat) return {};
  if (tools.length > 0 && !traits.formatsBesideTools) {
    losses.add("outputFormat");
    return {};
  }
  const responseMimeType = "application/json";
  if (outputFormat.kind === "json") return { responseMimeType };
  const { schema } = reduceSchema(outputFormat.schema);
  const { description } = outputFormat;
  return { responseMimeType, responseJsonSchema: description === undefined ? schema : { description, ...schema } };
}

function writeSampling(conversation: Conversation, { quirks }: Target, losses: Set<Loss>): Fields {
  const { temperature, topP, topK } = conversation;
  const sampling = { temperature, topP, topK };
  if (!quirks.has("no-sampling")) return sampling;
  for (const name of ["temperature", "topP", "topK"] as const) if (sampling[name] !== undefined) losses.add(name);
  return {};
}

function writePenalties(conversation: Conversation, traits: Traits, losses: Set<Loss>): Fields {
  const { presencePenalty, frequencyPenalty } = conversation;
  if (traits.takesPenalties) return { presencePenalty, frequencyPenalty };
  if (presencePenalty) losses.add("presencePenalty");
  if (frequencyPenalty) losses.add("frequencyPenalty");
  return {};
}

function writeSeed(seed: number | undefined, losses: Set<Loss>): number | undefined {
  if (seed === undefined || (Number.isInteger(seed) && Math.abs(seed) <= maxSeed)) return seed;
  losses.add("seed");
  return undefined;
}

function writeStops(stopSequences: readonly string[], losses: Set<Loss>): string[] | undefined {
  if (stopSequences.length > maxStopSequences) losses.add("stopSequences");
  return stopSequences.length > 0 ? stopSequences.slice(0, maxStopSequences) : undefined;
}

function withoutUndefined(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function writeGeneration(conversation: Conversation, target: Target, losses: Set<Loss>): Fields {
  const { maxOutputTokens, choices = 1, stopSequences, seed } = conversation;
  const traits = traitsOf(target.model, target.quirks);
  return withoutUndefined({
    // A cap above what the model writes says the same as that, and would be refused.
    maxOutputTokens: maxOutputTokens && Math.min(maxOutputTokens, target.maxOutputTokens),
    ...writeSampling(conversation, target, losses),
    ...writePenalties(conversation, traits, losses),
    seed: writeSeed(seed, losses),
    candidateCount: choices > 1 ? choices : undefined,
    stopSequences: writeStops(stopSequences, losses),
    ...writeFormat(conversation, traits, losses),
    thinkingConfig: writeThinking(conversation, traits, losses),
  });
}

/**
 * Fields that no request of Gemini has, or that would have it refused: most models from 2.5 on answer
 * `responseLogprobs` with 400 "Logprobs is not enabled".
 */
function noteUnsaid(conversation: Conversation, losses: Set<Loss>): void {
  const { topLogprobs, verbosity, endUser } = conversation;
  loseShared(conversation, losses);
  if (topLogprobs !== undefined) losses.add("logprobs");
  if (verbosity !== undefined) losses.add("verbosity");
  if (endUser !== undefined) losses.add("endUser");
}

/** Writes a generateContent request; its model and whether it is a stream stand in the path (pathOf). */
export function writeRequest(conversation: Conversation, target: Target): WrittenRequest {
  const losses = new Set<Loss>();
  const traits = traitsOf(target.model, target.quirks);
  noteUnsaid(conversation, losses);
  const { contents, systemInstruction } = writeTurns(conversation, traits, losses);
  const generationConfig = writeGeneration(conversation, target, losses);
  const body = withoutUndefined({
    systemInstruction,
    ...writeTools(conversation, losses),
    contents,
    generationConfig: Object.keys(generationConfig).length > 0 ? generationConfig : undefined,
  });
  return { body, losses };
}
