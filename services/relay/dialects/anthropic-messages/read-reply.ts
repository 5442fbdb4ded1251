import type { AnswerSink, ReadingContext } from "../answer.ts";
import { member, stringOf } from "../dialect.ts";
import { createStreamReader } from "./read-stream.ts";

/** Reads a whole message, as a stream whose message_start holds all of it; false when the body is none. */
export function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  if (!Array.isArray(member(body, "content"))) return false;
  const reader = createStreamReader(sink, context);
  // A whole answer without a stop_reason has simply stopped.
  const message = { ...(body as object), stop_reason: stringOf(member(body, "stop_reason")) || "end_turn" };
  reader.read({ data: "", json: { type: "message_start", message } });
  reader.read({ data: "", json: { type: "message_stop" } });
  return true;
}
