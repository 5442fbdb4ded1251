import type { AnswerFormat, PassPolicy } from "../answer.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";

// API spec, Streaming that stops partway: "No error arrives". An error ends the answer without reaching the caller.
const createPassing = (): PassPolicy => ({ onError: () => "end" });

export const answers: AnswerFormat = {
  createStreamReader,
  readReply,
  createPassing,
  isTextPlain: true,
  isOverAtError: true,
};
