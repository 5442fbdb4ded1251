import { member } from "../dialect.ts";
import { BrokenReplyError, foldReply, type Reply } from "../reply.ts";
import { createStreamReader } from "./read-stream.ts";

/** Adds an end where a whole body leaves it out: its JSON being complete says that it is not cut. */
function withEnding(candidate: unknown): unknown {
  if (typeof candidate !== "object" || candidate === null || member(candidate, "finishReason")) return candidate;
  return { ...candidate, finishReason: "STOP" };
}

/** A whole answer is one chunk of a stream; undefined for what is no answer, an error too. */
export function readReply(body: unknown): Reply | undefined {
  const candidates = member(body, "candidates");
  const reader = createStreamReader();
  const whole: unknown = Array.isArray(candidates)
    ? { ...(body as object), candidates: candidates.map(withEnding) }
    : body;
  const events = [...reader.read(whole), ...reader.end()];
  try {
    return foldReply(events);
  } catch (error) {
    if (error instanceof BrokenReplyError) return undefined;
    throw error;
  }
}
