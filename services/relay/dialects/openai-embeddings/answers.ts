import type { Units } from "#shared/money/pricing.ts";
import { countOf, member, readCounts, stringOf } from "../dialect.ts";
import { wholeAnswers } from "../whole-answers.ts";

function readUsage(usage: unknown): Units | undefined {
  const inputTokens = countOf(member(usage, "prompt_tokens"));
  return inputTokens > 0n ? { inputTokens } : undefined;
}

/** Lists of embeddings with their prompt_tokens. */
export const answers = wholeAnswers((body, sink) => {
  const data = member(body, "data");
  if (!Array.isArray(data)) return undefined;
  const units = readCounts(readUsage, member(body, "usage"));
  if (units) sink.usage({ scope: "answer", units, isLast: true });
  sink.served(stringOf(member(body, "model")));
  return { hasContent: data.length > 0 };
});
