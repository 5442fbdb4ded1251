import { spokenTokens } from "./openai-realtime/sound.ts";
import { flacRate } from "./openai-transcriptions/sound/flac.ts";
import { mpegMs } from "./openai-transcriptions/sound/mpeg.ts";
import { oggMs } from "./openai-transcriptions/sound/ogg.ts";

// 24,000 samples of 16 bits, which providers send as pcm; the most of MP3 and its like; CD quality.
const pcmBytesPerSecond = 48_000;
const maxBytesPerSecond = 40_000;
const losslessBytesPerSecond = 176_400;
// As much of a sound's beginning as tells how many bytes a second of it takes.
const mostHeadBytes = 131_072;

const wavRateAt = 28;
const oggPage = Buffer.from("OggS");

const rateOf = (bytes: number, ms: number | undefined): number =>
  ms ? Math.min((bytes * 1_000) / ms, maxBytesPerSecond) : maxBytesPerSecond;

/** By the pages that are whole. */
function oggRate(first: Buffer): number {
  const whole = first.subarray(0, Math.max(first.lastIndexOf(oggPage), 0));
  return rateOf(whole.length, oggMs(whole));
}

/** Bytes of a second of sound, by its first bytes where they tell, else as many as its format has at most. */
function readRate(first: Buffer, format: string | undefined): number {
  if (format === "pcm") return pcmBytesPerSecond;
  const mark = first.toString("latin1", 0, 4);
  if (mark === "RIFF" && first.length > wavRateAt + 4) return first.readUInt32LE(wavRateAt) || losslessBytesPerSecond;
  if (mark === "fLaC") return Math.min(flacRate(first) || losslessBytesPerSecond, losslessBytesPerSecond);
  if (mark === "OggS") return oggRate(first);
  if (mark === "RIFF" || format === "wav" || format === "flac") return losslessBytesPerSecond;
  return rateOf(first.length, mpegMs(first));
}

/** Adds up the sound of an answer that comes as bytes; gives its tokens so far, of which there are at least so many. */
export function createSpokenLength(format: string | undefined): (bytes: Buffer) => number {
  let [length, rate, readAt] = [0, maxBytesPerSecond, 0];
  let head: Buffer[] = [];
  const perSecond = spokenTokens((pcmBytesPerSecond * 4) / 3, "pcm");
  return (bytes) => {
    length += bytes.length;
    if (readAt <= mostHeadBytes) head.push(bytes);
    // Read again whenever there is twice as much: what comes first may be a head without sound.
    if (length >= readAt && readAt <= mostHeadBytes) {
      rate = readRate(Buffer.concat(head), format);
      readAt = length * 2;
      if (readAt > mostHeadBytes) head = [];
    }
    return Math.ceil((length / rate) * perSecond);
  };
}
