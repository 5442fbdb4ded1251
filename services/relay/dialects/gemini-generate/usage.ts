import type { Units } from "#shared/money/pricing.ts";
import { countOf, excess, lacksAny, member, readCounts, stringOf } from "../dialect.ts";

const smaller = (one: bigint, other: bigint): bigint => (one < other ? one : other);

const counts = ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"];

/** Tokens of one kind in `[{modality, tokenCount}]`. */
function tokensOf(details: unknown, modality: string): bigint {
  if (!Array.isArray(details)) return 0n;
  const ofKind = details.filter((detail) => member(detail, "modality") === modality);
  return ofKind.reduce((sum: bigint, detail) => sum + countOf(member(detail, "tokenCount")), 0n);
}

/**
 * Tokens of the input that were not cached, by kind. Pictures and sounds may be cached too, and the details of what
 * was cached may be missing: a kind never gets more than is left, so that the kinds add up to the whole.
 */
function freshInput(usage: unknown, fresh: bigint): Units {
  const ofKind = (modality: string): bigint =>
    excess(
      tokensOf(member(usage, "promptTokensDetails"), modality) +
        tokensOf(member(usage, "toolUsePromptTokensDetails"), modality),
      tokensOf(member(usage, "cacheTokensDetails"), modality),
    );
  const audioInputTokens = smaller(ofKind("AUDIO"), fresh);
  const imageInputTokens = smaller(ofKind("IMAGE"), fresh - audioInputTokens);
  return { inputTokens: fresh - audioInputTokens - imageInputTokens, audioInputTokens, imageInputTokens };
}

function visibleOutput(usage: unknown, visible: bigint): Units {
  const details = member(usage, "candidatesTokensDetails");
  const audioOutputTokens = smaller(tokensOf(details, "AUDIO"), visible);
  const imageOutputTokens = smaller(tokensOf(details, "IMAGE"), visible - audioOutputTokens);
  return { outputTokens: visible - audioOutputTokens - imageOutputTokens, audioOutputTokens, imageOutputTokens };
}

// Vertex AI's words for it.
const trafficTiers = new Map<unknown, string>([
  ["ON_DEMAND_FLEX", "flex"],
  ["ON_DEMAND_PRIORITY", "priority"],
  ["ON_DEMAND_OFFPEAK", "offpeak"],
]);

/** The tier that served an answer: its price may be another. */
export function readServiceTier(usage: unknown): string | undefined {
  const tier = stringOf(member(usage, "serviceTier"));
  return tier && tier !== "unspecified" ? tier : trafficTiers.get(member(usage, "trafficType"));
}

/** Whether all of an answer's output, or of its input, is not told; 0 is often left out. */
export function isPartial(usage: unknown): boolean {
  if (lacksAny(usage, ["promptTokenCount"])) return true;
  if (!lacksAny(usage, ["candidatesTokenCount"]) || !lacksAny(usage, ["thoughtsTokenCount"])) return false;
  return countOf(member(usage, "totalTokenCount")) <= readInput(usage);
}

const readInput = (usage: unknown): bigint =>
  countOf(member(usage, "promptTokenCount")) + countOf(member(usage, "toolUsePromptTokenCount"));

/**
 * Reads `usageMetadata` into disjoint buckets. promptTokenCount includes cached tokens; thoughtsTokenCount stands
 * beside candidatesTokenCount, but some models count thoughts within it, which only totalTokenCount tells; where no
 * thoughts are told, what the total holds beyond the others are thoughts. Videos and documents are priced as text.
 */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (!counts.some((name) => typeof member(usage, name) === "number")) return undefined;
  const input = readInput(usage);
  const cacheReadTokens = smaller(countOf(member(usage, "cachedContentTokenCount")), input);
  const candidates = countOf(member(usage, "candidatesTokenCount"));
  const total = countOf(member(usage, "totalTokenCount"));
  const thoughts = countOf(member(usage, "thoughtsTokenCount")) || excess(total, input + candidates);
  const isInside = thoughts > 0n && input + candidates === total;
  const reasoningTokens = isInside ? smaller(thoughts, candidates) : thoughts;
  return {
    ...freshInput(usage, input - cacheReadTokens),
    cacheReadTokens,
    ...visibleOutput(usage, isInside ? candidates - reasoningTokens : candidates),
    reasoningTokens,
  };
}
