import type { Units } from "#shared/money/pricing.ts";
import { countOf, emptyTally, excess, member, readCounts, stringOf, type Tally } from "../dialect.ts";
import { countSvg, withSvgs } from "../openai-shared/svg.ts";

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

/** Reads a whole answer: as many images as it holds. */
export function readReply(body: unknown): Tally | undefined {
  const data = member(body, "data");
  if (!Array.isArray(data)) return undefined;
  const tally = emptyTally();
  countSvg(body, tally);
  tally.usage = withSvgs(readUsage(member(body, "usage")), tally);
  tally.counted = { images: BigInt(data.length) };
  tally.modelServed = stringOf(member(body, "model"));
  tally.hasContent = data.length > 0;
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
