import type { AnswerFormat, PassPolicy } from "../answer.ts";
import { isUntouched, type Cleaner, type Envelope } from "../dialect.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";

/** Errors pass as callers may see them; their very bytes when there is nothing to take out. */
function createPassing(_envelope: Envelope, clean: Cleaner): PassPolicy {
  return {
    onError: (_event, error) => {
      const cleaned = clean(error);
      if (isUntouched(error, cleaned)) return "pass";
      const { message, type: status } = cleaned;
      return Buffer.from(`data: ${JSON.stringify({ error: { message, status } })}\n\n`);
    },
  };
}

/** There is no end mark: an answer is whole when its stream ends after each of its candidates said why it ended. */
export const answers: AnswerFormat = { createStreamReader, readReply, createPassing };
