import type { Units } from "#shared/money/pricing.ts";
import { countOf, excess, member, readCounts } from "../dialect.ts";

/** Reads the token counts that token-priced image models tell; text out is rare but is told apart. */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const input = countOf(member(usage, "input_tokens"));
  const imageInputTokens = countOf(member(member(usage, "input_tokens_details"), "image_tokens"));
  const output = countOf(member(usage, "output_tokens"));
  const outputTokens = countOf(member(member(usage, "output_tokens_details"), "text_tokens"));
  return {
    inputTokens: excess(input, imageInputTokens),
    imageInputTokens,
    imageOutputTokens: excess(output, outputTokens),
    outputTokens,
  };
}
