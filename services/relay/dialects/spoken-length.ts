import { spokenTokens } from "./openai-realtime/sound.ts";
import { mpegMs } from "./openai-transcriptions/sound/mpeg.ts";

// 24,000 samples of 16 bits, which providers send as pcm; the most of MP3 and its like; CD quality.
const pcmBytesPerSecond = 48_000;
const maxBytesPerSecond = 40_000;
const losslessBytesPerSecond = 176_400;

const wavRateAt = 28;

/** Bytes of a second of sound, by its first bytes where they tell, else as many as its format has at most. */
function readRate(first: Buffer, format: string | undefined): number {
  if (format === "pcm") return pcmBytesPerSecond;
  const mark = first.toString("latin1", 0, 4);
  if (mark === "RIFF" && first.length > wavRateAt + 4) return first.readUInt32LE(wavRateAt) || losslessBytesPerSecond;
  if (mark === "RIFF" || mark === "fLaC" || format === "wav" || format === "flac") return losslessBytesPerSecond;
  const ms = mpegMs(first);
  return ms ? Math.min((first.length * 1_000) / ms, maxBytesPerSecond) : maxBytesPerSecond;
}

/** Adds up the sound of an answer that comes as bytes; gives its tokens so far, of which there are at least so many. */
export function createSpokenLength(format: string | undefined): (bytes: Buffer) => number {
  let seconds = 0;
  let rate: number | undefined;
  const perSecond = spokenTokens((pcmBytesPerSecond * 4) / 3, "pcm");
  return (bytes) => {
    rate ??= readRate(bytes, format);
    seconds += bytes.length / rate;
    return Math.ceil(seconds * perSecond);
  };
}
