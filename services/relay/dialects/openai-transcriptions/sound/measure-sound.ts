import { readFlac } from "./flac.ts";
import { readMp4 } from "./mp4.ts";
import { behindTag, mpegMs } from "./mpeg.ts";
import { oggMs } from "./ogg.ts";
import { cdBytesPerSecond, type Sound } from "./sound.ts";
import { wavMs } from "./wav.ts";
import { readWebm } from "./webm.ts";

// Readers of their own, since those of libraries believe heads: a file whose head tells a second, and whose frames last
// an hour, is an hour to whoever decodes it.

/** 250 bit/s, less than silence takes: what is told beyond that is an error. */
const maxMsPerByte = 32;

const whole =
  (read: (file: Buffer) => number | undefined) =>
  (file: Buffer): Sound | undefined => {
    const ms = read(file);
    return ms === undefined ? undefined : { ms, bytes: file.length };
  };

type Reader = { isOf: (head: string) => boolean; read: (file: Buffer) => Sound | undefined; bytesPerSecond: number };

// No format of speech takes more: the most of MP3, and what others take at their best.
const maxBytesPerSecond = 320_000 / 8;
// 32 kbit/s, a low rate for speech that is still understood: most files hold less sound than this tells.
const usualBytesPerSecond = 4_000;

const readers: readonly Reader[] = [
  { isOf: (head) => /^(?:RIFF|RF64)....WAVE/s.test(head), read: whole(wavMs), bytesPerSecond: Infinity },
  { isOf: (head) => head.startsWith("OggS"), read: whole(oggMs), bytesPerSecond: maxBytesPerSecond },
  { isOf: (head) => head.startsWith("fLaC"), read: readFlac, bytesPerSecond: cdBytesPerSecond },
  { isOf: (head) => head.startsWith("ftyp", 4), read: readMp4, bytesPerSecond: maxBytesPerSecond },
  { isOf: (head) => head.startsWith("\u001aE\u00df\u00a3"), read: readWebm, bytesPerSecond: maxBytesPerSecond },
];
const mpeg: Reader = { isOf: () => true, read: whole(mpegMs), bytesPerSecond: maxBytesPerSecond };

const headBytes = 12;

/** How much sound a file holds: what it lasts at least, and at most as far as can be told. */
export type SoundLength = { leastMs: number; mostMs: number };

/**
 * Measures a file by its content. Bytes bound it, so that neither a head that lies nor a file that nobody can read is
 * sound for nothing.
 */
export function measureSound(given: Buffer): SoundLength {
  // Whatever may be in a tag: who decodes the file passes over it.
  const file = given.subarray(behindTag(given));
  const head = file.toString("latin1", 0, headBytes);
  const { read, bytesPerSecond } = readers.find(({ isOf }) => isOf(head)) ?? mpeg;
  const sound = read(file);
  if (!sound) {
    const leastMs = Math.ceil((file.length / cdBytesPerSecond) * 1_000);
    return { leastMs, mostMs: Math.ceil(file.length / usualBytesPerSecond) * 1_000 };
  }
  const told = Math.min(sound.ms, file.length * maxMsPerByte);
  const ms = Math.ceil(Math.max(told, (sound.bytes / (sound.bytesPerSecond ?? bytesPerSecond)) * 1_000));
  return { leastMs: ms, mostMs: ms };
}
