import { UnsupportedError } from "../conversation.ts";
import type { Envelope, Tally } from "../dialect.ts";
import { mediaOf } from "./images.ts";
import { lostFields, readMediaTally, type WrittenCall } from "./media-call.ts";
import { pathOf } from "./request.ts";

// Samples come raw, 16 bits, one channel, little-endian: any other format needs an encoder.
const formats = new Set<unknown>(["pcm", "wav"]);
const defaultRate = 24_000;
const bytesPerSample = 2;
const headerBytes = 44;
const formatBytes = 16;
const pcmFormat = 1;

const carried = new Set(["model", "input", "voice", "response_format"]);

/** Sound at its own speed, and not as events, is what comes anyway; directions go with the text. */
function isHarmless(name: string, value: unknown): boolean {
  if (name === "instructions") return typeof value === "string";
  return (name === "speed" && value === 1) || (name === "stream_format" && value === "audio");
}

/**
 * Writes a Format A request for speech as generateContent. Voices are Gemini's own, by their names. Throws
 * UnsupportedError for formats other than pcm and wav, also for the default, mp3, and for events.
 */
export function writeSpeech(request: Record<string, unknown>, model: string): WrittenCall {
  const { input, voice, instructions, response_format: format, stream_format: streamFormat } = request;
  if (typeof input !== "string") throw new UnsupportedError("field input must be a string");
  if (typeof voice !== "string") throw new UnsupportedError("field voice must be a name");
  if (!formats.has(format)) throw new UnsupportedError("field response_format: this model speaks wav and pcm only");
  if (streamFormat === "sse") throw new UnsupportedError("field stream_format: this model does not send events");
  // It reads directions from the text itself.
  const text = typeof instructions === "string" && instructions !== "" ? `${instructions}: ${input}` : input;
  const body = {
    contents: [{ role: "user", parts: [{ text }] }],
    generationConfig: {
      responseModalities: ["AUDIO"],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice } } },
    },
  };
  const dropped = lostFields(request, (name, value) => carried.has(name) || isHarmless(name, value));
  return { path: pathOf(model, false), body, dropped };
}

function rateOf(mediaType: string): number {
  return Number(/rate=(\d{4,6})/.exec(mediaType)?.[1] ?? defaultRate);
}

/** RIFF header of 16-bit samples of one channel. */
function wavHeader(dataBytes: number, rate: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(headerBytes - 8 + dataBytes, 4);
  header.write("WAVEfmt ", 8, "latin1");
  header.writeUInt32LE(formatBytes, 16);
  header.writeUInt16LE(pcmFormat, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate * bytesPerSample, 28);
  header.writeUInt16LE(bytesPerSample, 32);
  header.writeUInt16LE(bytesPerSample * 8, 34);
  header.write("data", 36, "latin1");
  header.writeUInt32LE(dataBytes, 40);
  return header;
}

/** Reads a whole answer: its tokens. */
export const readTally = (answer: unknown, envelope: Envelope): Tally | undefined =>
  readMediaTally(answer, envelope, "audioOutputTokens");

/** Sound for the caller. */
type Sound = { contentType: string; bytes: Buffer };

/** Gemini's answer as sound in the format that was asked for; undefined when it holds none. */
export function readSpeech(answer: unknown, request: Record<string, unknown>): Sound | undefined {
  const sounds = mediaOf(answer, "audio/");
  const [first] = sounds;
  if (!first) return undefined;
  const samples = Buffer.concat(sounds.map(({ data }) => Buffer.from(data, "base64")));
  if (request["response_format"] === "pcm") return { contentType: "audio/pcm", bytes: samples };
  const header = wavHeader(samples.length, rateOf(first.mediaType));
  return { contentType: "audio/wav", bytes: Buffer.concat([header, samples]) };
}
