import type { AnswerSink, ReadingContext } from "../answer.ts";
import { member } from "../dialect.ts";
import { createStreamReader } from "./read-stream.ts";
import { readUsage } from "./usage.ts";

// Of a response that is not finished, or never will be, nothing can be shown.
const endedStatuses = new Set<unknown>(["completed", "incomplete", undefined, null]);

/** Reads a whole response or compaction, as a stream of its last event; false for what is none. */
export function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  if (!Array.isArray(member(body, "output"))) return false;
  if (!endedStatuses.has(member(body, "status"))) sink.unreadable("the response is not finished");
  // What was paid for has content, also where nothing of it shows.
  const usage = readUsage(member(body, "usage")) ?? {};
  if (Object.values(usage).some((units) => units > 0n)) sink.content(0);
  createStreamReader(sink, context).read({ data: "", json: { type: "response.completed", response: body } });
  return true;
}
