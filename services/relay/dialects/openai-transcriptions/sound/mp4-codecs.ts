import { readFrame } from "./flac.ts";
import { opusPacketMs } from "./opus.ts";
import { cdBytesPerSecond } from "./sound.ts";

/**
 * What a sample of a track is: how long a frame lasts, or how long one is by its own head, and how many bytes a second
 * takes at most.
 */
export type Codec = { frameMs?: number; sampleMs?: (sample: Buffer) => number; bytesPerSecond?: number };

const usualRate = 48_000;
const lowestRate = 8_000;
// Higher rates than 65,535 have no place where the others are told.
const highestRate = 192_000;

// By what decoders are told to expect (ISO 14496-1, the registered object types).
const aacObject = 0x40;
const mp3Objects = [0x69, 0x6b];

/** The object type behind a description of `mp4a`: descriptors, each with its length in one to four bytes. */
function objectOf(file: Buffer, at: number, end: number): number | undefined {
  const decoder = file.indexOf("esds", at, "latin1");
  if (decoder === -1 || decoder > end) return undefined;
  const description = file.subarray(decoder + 8, Math.min(decoder + 48, end));
  const place = description.indexOf(4);
  if (place === -1) return undefined;
  let object = place + 1;
  // The last byte of a length is below 128.
  while ((description[object] ?? 0) >= 128) object += 1;
  return description[object + 1];
}

/** ALAC, by what its decoder is told: samples of a frame, bits, channels and rate. */
function readAlac(file: Buffer, at: number, end: number): Codec {
  const cookie = file.indexOf("alac", at + 36, "latin1") + 8;
  if (cookie < at + 44 || cookie + 24 > end) return { bytesPerSecond: cdBytesPerSecond };
  const [samples, rate] = [file.readUInt32BE(cookie), file.readUInt32BE(cookie + 20)];
  const sampleBytes = ((file[cookie + 5] ?? 0) * (file[cookie + 9] ?? 0)) / 8;
  if (samples === 0 || samples > 16_384 || rate < lowestRate) return { bytesPerSecond: cdBytesPerSecond };
  return { frameMs: (samples / rate) * 1_000, bytesPerSecond: sampleBytes * rate };
}

// Samples as they are, by the names of ISO 23003-5 and of QuickTime, and FLAC.
const uncompressed = new Set(["ipcm", "fpcm", "lpcm", "sowt", "twos", "in24", "in32", "fl32", "fl64", "raw ", "fLaC"]);

// 3GPP TS 26.244: 20 ms to a frame, of 32 or 61 bytes at most.
const amr = new Map<string, Codec>([
  ["samr", { frameMs: 20, bytesPerSecond: 32 * 50 }],
  ["sawb", { frameMs: 20, bytesPerSecond: 61 * 50 }],
]);

/** A sample of FLAC is a frame. */
const flacMs =
  (rate: number) =>
  (frame: Buffer): number => {
    const head = readFrame(frame);
    return head ? (head.samples / (head.rate || rate)) * 1_000 : 0;
  };

/** Reads the first description of a track's samples (ISO 14496-12, 12.2.3): their kind, channels, bits and rate. */
export function readCodec(file: Buffer, { start, end }: { start: number; end: number }): Codec {
  const at = start + 8;
  if (at + 36 > end) return {};
  const kind = file.toString("latin1", at + 4, at + 8);
  const told = file.readUInt16BE(at + 32);
  const rate = told >= lowestRate ? told : usualRate;
  const lasting = (samples: number): number => (samples / rate) * 1_000;
  const sampleBytes = (file.readUInt16BE(at + 24) * file.readUInt16BE(at + 26)) / 8;
  if (kind === "alac") return readAlac(file, at, end);
  if (uncompressed.has(kind)) {
    const most = sampleBytes * (told >= lowestRate ? told : highestRate);
    return { bytesPerSecond: Math.max(cdBytesPerSecond, most), ...(kind === "fLaC" && { sampleMs: flacMs(rate) }) };
  }
  if (kind === "Opus") return { sampleMs: ([first = 0, second = 0]) => opusPacketMs(first, second) };
  if (kind === "ac-3") return { frameMs: lasting(1_536) };
  const object = kind === "mp4a" ? objectOf(file, at, end) : undefined;
  if (object === aacObject) return { frameMs: lasting(1_024) };
  const isMp3 = kind === ".mp3" || mp3Objects.some((one) => one === object);
  if (isMp3) return { frameMs: lasting(rate >= 32_000 ? 1_152 : 576) };
  return amr.get(kind) ?? {};
}
