import { mpegMs } from "./mpeg.ts";

// Chunks of RIFF: https://learn.microsoft.com/windows/win32/multimedia/resource-interchange-file-format--riff-
// Samples of so many bits: as they are, in A-law and µ-law, and as ADPCM of Microsoft and IMA.
const sampleTags = new Set([1, 2, 3, 6, 7, 0x11]);
const mp3Tag = 0x55;
const extensibleTag = 0xfffe;
const maxChunks = 1_000;

type Format = { tag: number; bytesPerSecond: number };

/** What is told of the bytes of a second is not believed: who decodes the file has no use for it. */
function readFormat(file: Buffer, at: number, size: number): Format {
  const [tag, channels, rate, bits] = [0, 2, 4, 14].map((place) =>
    place === 4 ? file.readUInt32LE(at + place) : file.readUInt16LE(at + place),
  ) as [number, number, number, number];
  const isExtensible = tag === extensibleTag && size >= 26 && at + 26 <= file.length;
  return { tag: isExtensible ? file.readUInt16LE(at + 24) : tag, bytesPerSecond: (channels * rate * bits) / 8 };
}

/** Milliseconds of what is behind the head of the samples; undefined where their format does not tell. */
function lengthOf(data: Buffer, formats: readonly Format[]): number | undefined {
  if (formats.some(({ tag }) => tag === mp3Tag)) return mpegMs(data);
  if (formats.length === 0 || !formats.every(({ tag }) => sampleTags.has(tag))) return undefined;
  // Some read the first one, others the last.
  const least = Math.min(...formats.map(({ bytesPerSecond }) => bytesPerSecond));
  return least > 0 ? (data.length / least) * 1_000 : undefined;
}

/**
 * Milliseconds of a WAV file, from the bytes behind the head of its samples: a length that is told may be a lie, and of
 * a file that was written while it was recorded it is none.
 */
export function wavMs(file: Buffer): number | undefined {
  const formats: Format[] = [];
  let at = 12;
  for (let chunk = 0; chunk < maxChunks && at + 8 <= file.length; chunk += 1) {
    const name = file.toString("latin1", at, at + 4);
    const size = file.readUInt32LE(at + 4);
    if (name === "fmt " && at + 24 <= file.length) formats.push(readFormat(file, at + 8, size));
    if (name === "data") return lengthOf(file.subarray(at + 8), formats);
    at += 8 + size + (size % 2);
  }
  return undefined;
}
