import type { AnswerFormat, AnswerSink, ReadingContext, StreamReader } from "../answer.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { createChunkPassing, createChunkReader } from "../openai-shared/read-chunks.ts";
import { readToldUsage } from "../openai-shared/usage.ts";

const nothing = (): void => undefined;

/** A choice's text, in some servers' answers as a delta of chat, and its thinking. */
function textsOf(choice: unknown): (string | undefined)[] {
  const delta = member(choice, "delta");
  const thoughts = stringOf(member(choice, "reasoning")) ?? stringOf(member(choice, "reasoning_content"));
  return [stringOf(member(choice, "text")) || stringOf(member(delta, "content")), thoughts];
}

function createStreamReader(sink: AnswerSink, context: ReadingContext): StreamReader {
  const readChoice = (choice: unknown): void => {
    for (const text of textsOf(choice)) if (text) sink.content(estimateTokens(text));
  };
  return createChunkReader(sink, context, { readChoice, finish: nothing });
}

/** Reads a whole text completion, as a stream of one chunk. */
function readReply(body: unknown, sink: AnswerSink, context: ReadingContext): boolean {
  if (!Array.isArray(member(body, "choices"))) return false;
  const reader = createStreamReader(sink, context);
  reader.read({ data: "", json: { ...(body as object), error: undefined } });
  sink.ended(true, true);
  // What was paid for has content, also where nothing of it shows.
  if ((readToldUsage(member(body, "usage"))?.outputTokens ?? 0n) > 0n) sink.content(0);
  sink.markEnd();
  return true;
}

export const answers: AnswerFormat = {
  createStreamReader,
  readReply,
  createPassing: createChunkPassing,
  isTextPlain: true,
};
