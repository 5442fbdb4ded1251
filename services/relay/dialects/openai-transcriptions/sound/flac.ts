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
