import { RequestError, type AnswerKind, type Envelope } from "../dialect.ts";
import type { RequestBody } from "../json/request-body.ts";

// 32 kbit/s, a low rate for speech that is still understood: most files hold less sound than this tells.
const audioBytesPerSecond = 4_000;
const textFormats = new Set(["text", "srt", "vtt"]);

function answerOf(body: RequestBody): AnswerKind {
  // Python writes a capital. Anything else might be taken for true by an upstream, whose events nobody would count.
  const given = body.read("stream");
  const stream = typeof given === "string" ? given.toLowerCase() : given;
  if (stream === "true") return "events";
  if (stream !== undefined && stream !== "false") throw new RequestError("field stream must be true or false");
  const format = body.read("response_format");
  return typeof format === "string" && textFormats.has(format) ? "text" : "json";
}

/** Reads a form with sound to write down; what it may cost is bounded by the file's size. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const audioBytes = body.mediaBytes.reduce((sum, bytes) => sum + bytes, 0);
  const seconds = Math.ceil(audioBytes / audioBytesPerSecond);
  return {
    // The file is counted as sound, not as a picture of so many bytes.
    body: { ...body, mediaBytes: [] },
    model,
    answer: answerOf(body),
    outputCap: undefined,
    choices: 1,
    units: { mediaMs: BigInt(seconds * 1_000), audioInputTokens: BigInt(seconds * 10) },
    priceFields: {},
    wantsStreamUsage: true,
  };
}
