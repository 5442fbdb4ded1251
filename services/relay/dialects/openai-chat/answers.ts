import type { AnswerFormat } from "../answer.ts";
import { createChunkPassing } from "../openai-shared/read-chunks.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";

export const answers: AnswerFormat = {
  createStreamReader,
  readReply,
  createPassing: createChunkPassing,
  isTextPlain: true,
};
