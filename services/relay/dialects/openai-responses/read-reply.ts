import type { AnswerSink, ReadingContext } from "../answer.ts";
import { member } from "../dialect.ts";
import { createStreamReader } from "./read-stream.ts";
import { readUsage } from "./usage.ts";

// Of a response that is not finished, or never will be, nothing can be shown. Servers that imitate OpenAI have words of
// their own for one that is.
const unfinishedStatuses = new Set<unknown>(["queued", "in_progress", "failed", "cancelled"]);

function isPaidFor(response: unknown): boolean {
  const usage = readUsage(member(response, "usage")) ?? {};
  return Object.values(usage).some((units) => units > 0n);
}

/** Reads a whole response or compaction, as a stream of its last event; false for what is none. */
export function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  const told = member(body, "output");
  // Some servers write null where there is no output.
  const output = told === null && member(body, "object") === "response" ? [] : told;
  if (!Array.isArray(output)) return false;
  if (unfinishedStatuses.has(member(body, "status"))) sink.unreadable("the response is not finished");
  // What was paid for has content, also where nothing of it shows.
  if (output.length === 0 && isPaidFor(body)) sink.content(0);
  createStreamReader(sink, context).read({ data: "", json: { type: "response.completed", response: body } });
  return true;
}
