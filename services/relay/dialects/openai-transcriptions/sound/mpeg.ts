// Frames of MPEG audio (ISO 11172-3, 13818-3) and of AAC in ADTS (ISO 13818-7).
const rates = [44_100, 48_000, 32_000];
const adtsRates = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
];
// kbit/s by version 1 or not, and by layer.
const bitrates: Record<string, readonly number[]> = {
  "1.1": [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  "1.2": [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  "1.3": [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  "2.1": [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  "2.2": [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  "2.3": [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
};
const minFrames = 2;

type Frame = { bytes: number; ms: number };

function adtsFrame(file: Buffer, at: number): Frame | undefined {
  const [third = 0, fourth = 0, fifth = 0, sixth = 0] = file.subarray(at + 2, at + 6);
  const rate = adtsRates[(third >> 2) & 15];
  const bytes = ((fourth & 3) << 11) | (fifth << 3) | (sixth >> 5);
  if (rate === undefined || bytes < 7) return undefined;
  return { bytes, ms: (1_024_000 * (((file[at + 6] ?? 0) & 3) + 1)) / rate };
}

function frameAt(file: Buffer, at: number): Frame | undefined {
  const [first, second = 0, third = 0] = file.subarray(at, at + 3);
  if (first !== 0xff || (second & 0xe0) !== 0xe0) return undefined;
  const [version, layer] = [(second >> 3) & 3, 4 - ((second >> 1) & 3)];
  if (layer === 4) return (second & 0xf0) === 0xf0 ? adtsFrame(file, at) : undefined;
  const isFirst = version === 3;
  const kbits = bitrates[`${isFirst ? 1 : 2}.${layer}`]?.[third >> 4];
  const base = rates[(third >> 2) & 3];
  if (version === 1 || !kbits || base === undefined) return undefined;
  const rate = isFirst ? base : base / (version === 2 ? 2 : 4);
  const samples = layer === 1 ? 384 : layer === 3 && !isFirst ? 576 : 1_152;
  const padding = ((third >> 1) & 1) * (layer === 1 ? 4 : 1);
  return { bytes: Math.floor((samples * kbits * 125) / rate) + padding, ms: (samples * 1_000) / rate };
}

/** The place behind a tag (ID3v2) in front of the sound. */
export function behindTag(file: Buffer): number {
  if (file.toString("latin1", 0, 3) !== "ID3") return 0;
  const [a = 0, b = 0, c = 0, d = 0] = file.subarray(6, 10);
  return 10 + ((a & 127) << 21) + ((b & 127) << 14) + ((c & 127) << 7) + (d & 127);
}

/**
 * Milliseconds of MP3 or AAC, frame by frame: what a head tells of their number may be a lie. Undefined where most of
 * the file is none of it, in which a few frames tell nothing.
 */
export function mpegMs(file: Buffer): number | undefined {
  let [ms, bytes, frames] = [0, 0, 0];
  let at = 0;
  while (at !== -1 && at < file.length) {
    const frame = frameAt(file, at);
    // A frame alone is chance, unless it is the last one.
    const isOne = frame && (frames > 0 || frameAt(file, at + frame.bytes) !== undefined);
    if (frame && isOne) {
      ms += frame.ms;
      bytes += frame.bytes;
      frames += 1;
      at += frame.bytes;
    } else at = file.indexOf(0xff, at + 1);
  }
  return frames >= minFrames && bytes > file.length / 2 ? ms : undefined;
}
