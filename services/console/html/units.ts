import type { Usage } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets, type UsageBucket } from "#shared/money/pricing.ts";

/** What people call the buckets of use. */
export const bucketNames: Record<UsageBucket, string> = {
  inputTokens: "Input tokens",
  cacheReadTokens: "Cache read tokens",
  cacheWrite5mTokens: "Cache write tokens (short)",
  cacheWrite1hTokens: "Cache write tokens (long)",
  outputTokens: "Output tokens",
  reasoningTokens: "Reasoning tokens",
  audioInputTokens: "Audio input tokens",
  audioOutputTokens: "Audio output tokens",
  imageInputTokens: "Image input tokens",
  imageOutputTokens: "Image output tokens",
  images: "Images",
  characters: "Characters",
  mediaMs: "Audio or video (ms)",
  toolCalls: "Tool calls",
  requests: "Requests",
  webSearches: "Web searches",
  webFetches: "Web fetches",
  fileSearches: "File searches",
  codeSessions: "Code containers",
  searchSources: "Search sources",
  otherModelsNanos: "Other models (nano-USD)",
};

/** The buckets of which any of these has units, in their order. */
export function bucketsInUse(usages: readonly (Usage | undefined)[]): UsageBucket[] {
  return usageBuckets.filter((bucket) => usages.some((usage) => (usage?.[bucket] ?? 0n) > 0n));
}

/** A number of calls or units, its thousands apart. */
export const count = (number: bigint | number): string => number.toLocaleString("en-US");

const millionthsPerUsd = 10n ** 15n;

/** Millionths of nano-USD (units times their price per 1,000,000) in USD, with as many decimals as it takes. */
export function exactUsd(millionths: bigint): string {
  const decimals = (millionths % millionthsPerUsd)
    .toString()
    .padStart(15, "0")
    .replace(/0{1,13}$/, "");
  return `${millionths / millionthsPerUsd}.${decimals} USD`;
}
