// RFC 9639, 8.2: the first block of metadata.
const streamInfoAt = 8;

/** Milliseconds of FLAC, as its head tells; undefined where it does not. */
export function flacMs(file: Buffer): number | undefined {
  if (file.length < streamInfoAt + 18) return undefined;
  const bits = file.readBigUInt64BE(streamInfoAt + 10);
  const rate = Number(bits >> 44n);
  const samples = Number(bits & 0xfffffffffn);
  return rate > 0 && samples > 0 ? (samples / rate) * 1_000 : undefined;
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

/**
 * Bytes that a second of FLAC takes, by its first frames (9.1, all of one length), else by what its samples take
 * uncompressed; undefined without a head. What the head tells of the length is not taken: of a stream it tells 0.
 */
export function flacRate(file: Buffer): number | undefined {
  if (file.length < streamInfoAt + 18) return undefined;
  const blockSamples = file.readUInt16BE(streamInfoAt + 2);
  const bits = file.readBigUInt64BE(streamInfoAt + 10);
  const samplesPerSecond = Number(bits >> 44n);
  if (samplesPerSecond === 0) return undefined;
  const start = frameStart(file);
  let [frames, last] = [0, start];
  for (let at = start; at !== -1 && at + 8 <= file.length; at = file.indexOf(0xff, at + 1)) {
    const isFrame = file[at + 1] === 0xf8 && file[at + 2] === file[start + 2] && numberAt(file, at + 4) === frames;
    if (!isFrame) continue;
    frames += 1;
    last = at;
  }
  if (frames > 1) return ((last - start) * samplesPerSecond) / ((frames - 1) * blockSamples);
  const channels = Number((bits >> 41n) & 7n) + 1;
  return (samplesPerSecond * channels * (Number((bits >> 36n) & 31n) + 1)) / 8;
}
