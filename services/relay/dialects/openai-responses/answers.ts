import type { AnswerFormat } from "../answer.ts";
import { createPassing } from "./pass-stream.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";

export const answers: AnswerFormat = { createStreamReader, readReply, createPassing };
