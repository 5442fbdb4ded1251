import { measureSound } from "./sound/measure-sound.ts";
import { RequestError, type AnswerKind, type Envelope } from "../dialect.ts";
import type { RequestBody } from "../json/request-body.ts";

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

// What providers count of a second of sound.
const audioTokensPerMs = 0.01;

/** Reads a form with sound to write down; what it may cost is bounded by how long the sound is. */
export function readEnvelope(body: RequestBody, model: string): Envelope {
  const file = body.read("file");
  // What an address leads to could not be measured.
  if (!Buffer.isBuffer(file)) throw new RequestError("field file must be a file");
  const { leastMs, mostMs } = measureSound(file);
  return {
    // The file is counted as sound, not as a picture of so many bytes.
    body: { ...body, mediaBytes: [] },
    model,
    answer: answerOf(body),
    outputCap: undefined,
    choices: 1,
    units: { mediaMs: BigInt(mostMs), audioInputTokens: BigInt(Math.ceil(mostMs * audioTokensPerMs)) },
    leastMediaMs: BigInt(leastMs),
    priceFields: {},
    wantsStreamUsage: true,
  };
}
