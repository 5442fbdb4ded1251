import { emptyTally, member, stringOf, type Tally } from "../dialect.ts";

/** Reads a list of verdicts; providers tell no counts. */
export function readReply(body: unknown): Tally | undefined {
  const results = member(body, "results");
  if (!Array.isArray(results)) return undefined;
  const tally = emptyTally();
  tally.modelServed = stringOf(member(body, "model"));
  tally.hasContent = results.length > 0;
  tally.hasFinish = true;
  tally.isComplete = true;
  return tally;
}
