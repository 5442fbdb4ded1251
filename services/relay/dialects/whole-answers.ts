import type { AnswerFormat, AnswerSink } from "./answer.ts";

/** Answers of a dialect that never streams; `read` tells what a whole one holds, and whether it holds anything. */
export const wholeAnswers = (
  read: (body: unknown, sink: AnswerSink) => { hasContent: boolean } | undefined,
): AnswerFormat => ({
  readReply: (body, sink) => {
    const found = read(body, sink);
    if (!found) return false;
    if (found.hasContent) sink.content(0);
    sink.ended(true, true);
    sink.markEnd();
    return true;
  },
  createStreamReader: () => ({ read: () => undefined, end: () => undefined }),
  createPassing: () => ({ onError: () => "pass" }),
});
