import type { AnswerSink, ReadingContext } from "../answer.ts";
import { member, stringOf } from "../dialect.ts";
import { createStreamReader } from "./read-stream.ts";

/** Reads a whole message, as a stream whose message_start holds all of it; false when the body is none. */
export function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  const content = member(body, "content");
  if (!Array.isArray(content)) return false;
  const reader = createStreamReader(sink, context);
  // A whole answer without a stop_reason has simply stopped.
  const message = {
    id: member(body, "id"),
    model: member(body, "model"),
    content,
    stop_reason: stringOf(member(body, "stop_reason")) || "end_turn",
    stop_sequence: member(body, "stop_sequence"),
    stop_details: member(body, "stop_details"),
    usage: member(body, "usage"),
  };
  reader.read({ data: "", json: { type: "message_start", message } });
  reader.read({ data: "", json: { type: "message_stop" } });
  return true;
}
