import type { AnswerSink, ReadingContext } from "../answer.ts";
import { member } from "../dialect.ts";
import { blockReasonOf } from "./finish-reasons.ts";
import { createStreamReader } from "./read-stream.ts";

/** Adds an end where a whole body leaves it out: its JSON being complete says that it is not cut. */
function withEnding(candidate: unknown): unknown {
  if (typeof candidate !== "object" || candidate === null || member(candidate, "finishReason")) return candidate;
  return { ...candidate, finishReason: "STOP" };
}

/** Reads a whole answer, as a stream of one chunk; false for what is none, an error too. */
export function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  const candidates = member(body, "candidates");
  if (!Array.isArray(candidates) && blockReasonOf(body) === undefined) return false;
  const whole = Array.isArray(candidates) ? { candidates: candidates.map(withEnding) } : {};
  if (member(body, "error")) sink.unreadable("an error stands beside the answer");
  const reader = createStreamReader(sink, context);
  reader.read({ data: "", json: { ...(body as object), ...whole, error: undefined } });
  sink.ended(true, true);
  sink.markEnd();
  reader.end();
  return true;
}
