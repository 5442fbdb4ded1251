import { namelessError, type AnswerFormat, type AnswerSink, type EventKind } from "../answer.ts";
import { estimateTokens, member, stringOf, totalOf } from "../dialect.ts";
import { passErrors, readError } from "../openai-shared/error.ts";
import { spokenTokens, type SoundFormat } from "./sound.ts";
import { readUsage } from "./usage.ts";

// By the names of today and of the beta.
const textDeltas = new Set([
  "response.output_text.delta",
  "response.text.delta",
  "response.output_audio_transcript.delta",
  "response.audio_transcript.delta",
  "response.function_call_arguments.delta",
  "response.mcp_call_arguments.delta",
]);
const soundDeltas = new Set(["response.output_audio.delta", "response.audio.delta"]);

/** Reads the events of one response of a session. */
export class ResponseReader {
  private readonly sink: AnswerSink;
  private spoken = 0;

  constructor(sink: AnswerSink) {
    this.sink = sink;
  }

  /** `format` is that of the sound which the model says. */
  read(event: unknown, format: SoundFormat): EventKind {
    const { sink } = this;
    const type = stringOf(member(event, "type")) ?? "";
    const delta = stringOf(member(event, "delta")) ?? "";
    if (delta !== "" && textDeltas.has(type)) sink.content(estimateTokens(delta));
    else if (delta !== "" && soundDeltas.has(type)) this.hear(delta, format);
    else if (type === "response.done") this.end(member(event, "response"));
    else if (type === "error") {
      sink.error(readError(event) ?? namelessError);
      return "error";
    }
    return undefined;
  }

  private hear(sound: string, format: SoundFormat): void {
    this.spoken += spokenTokens(sound.length, format);
    this.sink.content(0);
    this.sink.counted("audioOutputTokens", BigInt(Math.ceil(this.spoken)));
  }

  private end(response: unknown): void {
    const { sink } = this;
    const usage = member(response, "usage");
    const units = readUsage(usage);
    if (units) sink.usage({ scope: "answer", units, total: totalOf(usage, "total_tokens"), isLast: true });
    sink.served(stringOf(member(response, "model")));
    sink.ended(true, true);
    sink.markEnd();
  }
}

/** A session's answers come as events on its socket. */
export const answers: AnswerFormat = {
  createStreamReader: (sink) => {
    const reader = new ResponseReader(sink);
    return { read: ({ json }) => reader.read(json, "pcm"), end: () => undefined };
  },
  readReply: () => false,
  createPassing: (_envelope, clean) => passErrors(clean),
};
