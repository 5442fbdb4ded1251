import type { Units } from "#shared/money/pricing.ts";
import {
  namelessError,
  type AnswerFormat,
  type AnswerSink,
  type EventKind,
  type ReadingContext,
  type StreamReader,
} from "../answer.ts";
import { countOf, member, readCounts, stringOf } from "../dialect.ts";
import { passErrors, readError } from "../openai-shared/error.ts";
import { toldOfMedia } from "../openai-shared/told-media.ts";
import { createSpokenLength } from "../spoken-length.ts";
import type { StreamEvent } from "../sse.ts";

function readUsage(usage: unknown): Units | undefined {
  const inputTokens = countOf(member(usage, "input_tokens"));
  const audioOutputTokens = countOf(member(usage, "output_tokens"));
  return inputTokens + audioOutputTokens > 0n ? { inputTokens, audioOutputTokens } : undefined;
}

/**
 * Sound that passes as bytes: any of it is content, and only the upstream's own end tells that it is whole. No provider
 * tells its tokens then: they are as many as the sound is long, and not fewer than its text lets expect.
 */
function createBytesReader(sink: AnswerSink, { envelope: { soundFormat, units } }: ReadingContext): StreamReader {
  const lengthOf = createSpokenLength(soundFormat);
  const { audioOutputTokens: expected = 0n } = units;
  const read = ({ bytes }: StreamEvent): EventKind => {
    sink.content(0);
    const heard = BigInt(bytes ? lengthOf(bytes) : 0);
    if (heard > expected) sink.counted("audioOutputTokens", heard);
    sink.ended(true, false);
    return undefined;
  };
  return { read, end: () => undefined };
}

function readEvent(event: unknown, sink: AnswerSink): EventKind {
  const type = stringOf(member(event, "type"));
  if (type === "error" || member(event, "error")) {
    sink.error(readError(event) ?? namelessError);
    return "error";
  }
  if (type === "speech.audio.delta") sink.content(0);
  if (type !== "speech.audio.done") return undefined;
  const usage = member(event, "usage");
  const told = toldOfMedia(usage, readCounts(readUsage, usage), { input: "input_tokens", output: "output_tokens" });
  if (told) sink.usage(told);
  sink.ended(true, true);
  sink.markEnd();
  return undefined;
}

function createStreamReader(sink: AnswerSink, context: ReadingContext): StreamReader {
  if (context.envelope.answer === "bytes") return createBytesReader(sink, context);
  return { read: ({ json }) => readEvent(json, sink), end: () => undefined };
}

/** Speech, as bytes or as events; it never comes whole. */
export const answers: AnswerFormat = {
  createStreamReader,
  readReply: () => false,
  createPassing: (_envelope, clean) => passErrors(clean),
};
