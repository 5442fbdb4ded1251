import type { Units } from "#shared/money/pricing.ts";
import { countOf, member, readCounts, stringOf } from "../dialect.ts";
import { wholeAnswers } from "../whole-answers.ts";

/** All of it is input: Voyage tells a total alone, and some servers have the newer name. */
function readUsage(usage: unknown): Units | undefined {
  const [prompt, input, total] = ["prompt_tokens", "input_tokens", "total_tokens"].map((name) =>
    countOf(member(usage, name)),
  );
  const inputTokens = prompt || input || total || 0n;
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
