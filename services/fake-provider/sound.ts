import { createHash } from "node:crypto";

/** Media types by the name of the format, as the provider sends them. */
export const soundTypes: Record<string, string> = {
  mp3: "audio/mpeg",
  opus: "audio/opus",
  aac: "audio/aac",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm",
};

const samplesPerSecond = 24_000;
const millisecondsPerWord = 50;
const bytesPerWord = (samplesPerSecond * 2 * millisecondsPerWord) / 1_000;
const wavHeadBytes = 44;

// An MPEG-1 layer III frame of 128 kbit/s at 44.1 kHz: its four bytes of header, then what it says.
const mp3FrameBytes = 417;
const mp3FrameHead = Buffer.from([0xff, 0xfb, 0x90, 0x00]);
const mp3BytesPerSecond = 16_000;

const magic: Record<string, string> = { opus: "OggS", flac: "fLaC", aac: "\xff\xf1" };

/** The sound of a text of so many words. A word of PCM is a tone whose pitch the word decides. */
export function soundOf(format: string, text: string, words: number): Buffer {
  const seed = createHash("sha256").update(text).digest();
  if (format === "wav" || format === "pcm") return toneOf(seed, words);
  const filler = Buffer.alloc(mp3FrameBytes * 2 * words, seed);
  if (format !== "mp3") return filler;
  for (let at = 0; at < filler.length; at += mp3FrameBytes) mp3FrameHead.copy(filler, at);
  return filler;
}

/** What stands before the sound in a file of this format. */
export function headOf(format: string, parts: { bytes: Buffer }[]): Buffer {
  if (format !== "wav") return Buffer.from(magic[format] ?? "", "latin1");
  const head = Buffer.alloc(wavHeadBytes);
  const soundBytes = parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
  head.write("RIFF", 0);
  head.writeUInt32LE(soundBytes + wavHeadBytes - 8, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(samplesPerSecond, 24);
  head.writeUInt32LE(samplesPerSecond * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(soundBytes, 40);
  return head;
}

/** A WAV file of silence. */
export function silentWav(milliseconds: number): Buffer {
  const bytes = Buffer.alloc((samplesPerSecond * 2 * milliseconds) / 1_000);
  return Buffer.concat([headOf("wav", [{ bytes }]), bytes]);
}

/** How long a file sounds: by its head when it is WAV, else as if it were an MP3 of 128 kbit/s. */
export function durationMs(file: Buffer): number {
  const isWav = file.length >= wavHeadBytes && file.toString("latin1", 0, 4) === "RIFF";
  const bytesPerSecond = isWav ? file.readUInt32LE(28) : mp3BytesPerSecond;
  const soundBytes = isWav ? file.length - wavHeadBytes : file.length;
  return Math.round((soundBytes * 1_000) / (bytesPerSecond || mp3BytesPerSecond));
}

function toneOf(seed: Buffer, words: number): Buffer {
  const pitch = 200 + seed.readUInt8(0) * 2;
  const tone = Buffer.alloc(bytesPerWord * words);
  for (let at = 0; at < tone.length; at += 2) {
    const phase = (2 * Math.PI * pitch * at) / 2 / samplesPerSecond;
    tone.writeInt16LE(Math.round(Math.sin(phase) * 8_000), at);
  }
  return tone;
}
