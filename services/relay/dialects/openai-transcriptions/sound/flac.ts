import type { Sound } from "./sound.ts";

// RFC 9639, 8.2: the first block of metadata.
const streamInfoAt = 8;

type Head = { blockSamples: number; rate: number; samples: number; uncompressed: number };

function readHead(file: Buffer): Head | undefined {
  if (file.length < streamInfoAt + 18) return undefined;
  const bits = file.readBigUInt64BE(streamInfoAt + 10);
  const rate = Number(bits >> 44n);
  if (rate === 0) return undefined;
  const sampleBits = (Number((bits >> 41n) & 7n) + 1) * (Number((bits >> 36n) & 31n) + 1);
  return {
    blockSamples: file.readUInt16BE(streamInfoAt + 2),
    rate,
    samples: Number(bits & 0xfffffffffn),
    uncompressed: (rate * sampleBits) / 8,
  };
}

/** The number of a frame, which it holds as UTF-8 would a character (9.1.5); undefined for one of other bytes. */
function numberAt(file: Buffer, at: number): number | undefined {
  const first = file[at] ?? 0;
  if (first < 0x80) return first;
  const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  if (more === 0) return undefined;
  let number = first & (0x3f >> more);
  for (let next = 1; next <= more; next += 1) number = (number << 6) | ((file[at + next] ?? 0) & 0x3f);
  return number;
}

/** Where the sound begins, behind all metadata (8.1). */
function frameStart(file: Buffer): number {
  let at = 4;
  for (let isLast = false; !isLast && at + 4 <= file.length; at += 4 + file.readUIntBE(at + 1, 3)) {
    isLast = ((file[at] ?? 0) & 0x80) !== 0;
  }
  return at;
}

/** The frames (9.1, all of one length) that follow one another by their numbers, and the bytes from first to last. */
type Frames = { start: number; count: number; bytes: number };

// Of what looks like the beginning of a frame: hours of sound have as many.
const maxCandidates = 50_000;

function findFrames(file: Buffer): Frames {
  const start = frameStart(file);
  const beginning = Buffer.from([0xff, 0xf8, file[start + 2] ?? 0]);
  let [count, last] = [0, start];
  let at = file.indexOf(beginning, start);
  for (let left = maxCandidates; at !== -1 && at + 8 <= file.length && left > 0; left -= 1) {
    if (numberAt(file, at + 4) === count) {
      count += 1;
      last = at;
    }
    at = file.indexOf(beginning, at + 1);
  }
  return { start, count, bytes: last - start };
}

/** Bytes of a second, by the frames; undefined where there are too few. */
const rateOf = ({ count, bytes }: Frames, { rate, blockSamples }: Head): number | undefined =>
  count > 1 && blockSamples > 0 ? (bytes * rate) / ((count - 1) * blockSamples) : undefined;

/**
 * Bytes that a second of FLAC takes, by its first frames, else by what its samples take uncompressed; undefined without
 * a head. What the head tells of the length is not taken: of a stream it tells 0.
 */
export function flacRate(file: Buffer): number | undefined {
  const head = readHead(file);
  return head && (rateOf(findFrames(file), head) ?? head.uncompressed);
}

// By number, as each frame has it (9.1.2), which decoders go by; 0: as the head says.
const rates = [0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];

/** Samples of a block by its number (9.1.1); undefined: it stands behind the number of the frame. */
function blockOf(number: number): number | undefined {
  if (number === 1) return 192;
  if (number >= 2 && number <= 5) return 576 << (number - 2);
  return number >= 8 ? 256 << (number - 8) : undefined;
}

/** What the head of a frame tells; a rate of 0 is that of the file. Undefined for what is none. */
export function readFrame(frame: Buffer): { samples: number; rate: number } | undefined {
  if (frame.length < 6 || frame[0] !== 0xff || ((frame[1] ?? 0) & 0xfe) !== 0xf8) return undefined;
  const [number, rate] = [(frame[2] ?? 0) >> 4, rates[(frame[2] ?? 0) & 15] ?? 0];
  const samples = blockOf(number);
  if (samples !== undefined) return { samples, rate };
  // Behind a number of one to seven bytes.
  const first = frame[4] ?? 0;
  const at = 4 + (first < 0x80 ? 1 : Math.clz32(~(first << 24)));
  if (number === 6 && at < frame.length) return { samples: (frame[at] ?? 0) + 1, rate };
  return number === 7 && at + 2 <= frame.length ? { samples: frame.readUInt16BE(at) + 1, rate } : undefined;
}

// What frames tell is about right: the last one is shorter, and something may stand behind it.
const tolerance = 1.05;
const toleranceMs = 1_000;

/** The sound of FLAC, as its head tells, unless its frames tell of more. */
export function readFlac(file: Buffer): Sound | undefined {
  const told = readHead(file);
  if (!told) return undefined;
  const frames = findFrames(file);
  const rate = (frames.count > 1 && rates[(file[frames.start + 2] ?? 0) & 15]) || told.rate;
  const head = { ...told, rate, uncompressed: (told.uncompressed / told.rate) * rate };
  const toldMs = (head.samples / rate) * 1_000;
  const perSecond = rateOf(frames, head);
  const countedMs = perSecond ? ((file.length - frames.start) / perSecond) * 1_000 : 0;
  const ms = countedMs > toldMs * tolerance + toleranceMs ? countedMs : toldMs;
  return ms > 0 ? { ms, bytes: file.length, bytesPerSecond: head.uncompressed } : undefined;
}
