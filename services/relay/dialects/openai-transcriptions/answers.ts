import { namelessError, type AnswerFormat, type AnswerSink, type EventKind, type StreamReader } from "../answer.ts";
import { estimateTokens, member, stringOf } from "../dialect.ts";
import { passErrors, readError } from "../openai-shared/error.ts";
import { millisecondsOf } from "../openai-shared/usage.ts";
import { mediaMsOf, readTold } from "./usage.ts";

/** Counts text that has passed, for the case that the provider tells no counts; gives the milliseconds so far. */
function countText(text: string, sink: AnswerSink, beforeMs: bigint): bigint {
  if (text !== "") sink.content(estimateTokens(text));
  const mediaMs = beforeMs + mediaMsOf(text);
  sink.counted("mediaMs", mediaMs);
  return mediaMs;
}

function finish(sink: AnswerSink): void {
  // Silence was worked on too.
  sink.content(0);
  sink.ended(true, true);
  sink.markEnd();
}

// Mistral's names for OpenAI's (@mistralai/mistralai 2.7, `TranscriptionStreamEventTypes`).
const openaiNames: Record<string, string | undefined> = {
  "transcription.text.delta": "transcript.text.delta",
  "transcription.segment": "transcript.text.segment",
  "transcription.done": "transcript.text.done",
};

function typeOf(event: unknown): string | undefined {
  const type = stringOf(member(event, "type"));
  return type !== undefined && Object.hasOwn(openaiNames, type) ? openaiNames[type] : type;
}

/**
 * Reads a streamed transcript, which is whole at transcript.text.done. One that tells who speaks has a segment behind
 * the text of each of them, by whose end the sound before it is measured.
 */
function createStreamReader(sink: AnswerSink): StreamReader {
  let segmentsMs = 0n;
  let mediaMs = 0n;
  let hasDeltas = false;
  const readSegment = (event: unknown): void => {
    // The text has come already, but where a provider sends segments alone.
    if (!hasDeltas) countText(stringOf(member(event, "text")) ?? "", sink, mediaMs);
    const endMs = millisecondsOf(member(event, "end"));
    // Mistral has segments that do not tell it.
    if (endMs === 0n) return;
    if (endMs > segmentsMs) segmentsMs = endMs;
    mediaMs = segmentsMs;
    sink.counted("mediaMs", mediaMs);
  };
  const read = (event: unknown): EventKind => {
    const type = typeOf(event);
    if (type === "error" || member(event, "error")) {
      sink.error(readError(event) ?? namelessError);
      return "error";
    }
    if (type === "transcript.text.delta") {
      hasDeltas = true;
      const text = stringOf(member(event, "delta")) ?? stringOf(member(event, "text")) ?? "";
      mediaMs = countText(text, sink, mediaMs);
    } else if (type === "transcript.text.segment") readSegment(event);
    if (type !== "transcript.text.done") return undefined;
    const told = readTold(member(event, "usage"));
    if (told) sink.usage(told);
    finish(sink);
    return undefined;
  };
  return { read: ({ json }) => read(json), end: () => undefined };
}

/** Reads a whole transcript, JSON or text. */
function readReply(body: unknown, sink: AnswerSink): boolean {
  const text = stringOf(body) ?? stringOf(member(body, "text"));
  if (text === undefined) return false;
  countText(text, sink, 0n);
  const durationMs = millisecondsOf(member(body, "duration"));
  const told = readTold(member(body, "usage"));
  if (told) sink.usage(told);
  else if (durationMs > 0n) sink.usage({ scope: "answer", units: { mediaMs: durationMs }, isLast: true });
  finish(sink);
  return true;
}

export const answers: AnswerFormat = {
  createStreamReader,
  readReply,
  createPassing: (_envelope, clean) => passErrors(clean),
};
