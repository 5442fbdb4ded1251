import { member, stringOf } from "../dialect.ts";
import { wholeAnswers } from "../whole-answers.ts";

/** Lists of verdicts; providers tell no counts. */
export const answers = wholeAnswers((body, sink) => {
  const results = member(body, "results");
  if (!Array.isArray(results)) return undefined;
  sink.served(stringOf(member(body, "model")));
  return { hasContent: results.length > 0 };
});
