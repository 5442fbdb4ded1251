import { readCodec, type Codec } from "./mp4-codecs.ts";
import { SampleReader } from "./mp4-samples.ts";
import type { Sound } from "./sound.ts";

// ISO 14496-12: boxes within boxes.
type Box = { name: string; at: number; start: number; end: number };

/**
 * A file, and how many boxes and samples of it are still looked at: boxes may lie in each other as often as bytes let
 * them, and samples of many tracks in one place.
 */
type Input = { file: Buffer; left: number; samples: { left: number } };

// An hour in fragments of a second has some 30,000.
const maxBoxes = 200_000;
const maxTracks = 256;
// Hours of the shortest packets.
const maxSamples = 4_000_000;

function* boxesOf(input: Input, { start, end }: { start: number; end: number }): Generator<Box> {
  const { file } = input;
  let at = start;
  while (at + 8 <= end && (input.left -= 1) >= 0) {
    let size = file.readUInt32BE(at);
    let head = 8;
    if (size === 1 && at + 16 <= end) {
      size = Number(file.readBigUInt64BE(at + 8));
      head = 16;
    }
    const stop = size === 0 ? end : at + size;
    if (stop > end || stop < at + head) return;
    yield { name: file.toString("latin1", at + 4, at + 8), at, start: at + head, end: stop };
    at = stop;
  }
}

function find(
  input: Input,
  within: { start: number; end: number },
  [name, ...rest]: readonly string[],
): Box | undefined {
  for (const box of boxesOf(input, within)) {
    if (box.name === name) return rest.length === 0 ? box : find(input, box, rest);
  }
  return undefined;
}

/** Units of a second. */
function timescaleOf(file: Buffer, { start, end }: Box): number {
  const at = start + (file[start] === 1 ? 20 : 12);
  return at + 4 <= end ? file.readUInt32BE(at) : 0;
}

/** The table of how long each run of samples is. */
function unitsOf(file: Buffer, { start, end }: Box): number {
  let units = 0;
  for (let at = start + 8; at + 8 <= end; at += 8) units += file.readUInt32BE(at) * file.readUInt32BE(at + 4);
  return units;
}

/** Bytes of all samples of a track: of one size, or of each its own. */
function bytesOf(file: Buffer, { start, end }: Box): number {
  if (start + 12 > end) return 0;
  const [size, count] = [file.readUInt32BE(start + 4), file.readUInt32BE(start + 8)];
  if (size > 0) return size * count;
  let bytes = 0;
  for (let at = start + 12; at + 4 <= end; at += 4) bytes += file.readUInt32BE(at);
  return bytes;
}

type Track = { id: number; timescale: number; units: number; bytes: number; samples: number; codec: Codec } & {
  /** Where each sample tells how long it is. */
  reader: SampleReader | undefined;
};

/** Reads samples that tell how long they are. */
function readSamples(input: Input, track: Box, { sampleMs }: Codec): SampleReader | undefined {
  if (!sampleMs) return undefined;
  const reader = new SampleReader(input.file, sampleMs, input.samples);
  const table = (name: string): Box | undefined => find(input, track, ["mdia", "minf", "stbl", name]);
  const [sizes, chunks, narrow, wide] = ["stsz", "stsc", "stco", "co64"].map(table);
  const places = narrow ?? wide;
  if (sizes && chunks && places) reader.readChunks({ sizes, chunks, places, isWide: narrow === undefined });
  return reader;
}

function readTrack(input: Input, track: Box): Track | undefined {
  const { file } = input;
  const handler = find(input, track, ["mdia", "hdlr"]);
  const head = find(input, track, ["tkhd"]);
  const media = find(input, track, ["mdia", "mdhd"]);
  if (!handler || !head || !media || handler.end < handler.start + 12 || head.end < head.start + 24) return undefined;
  const [times, sizes, description] = ["stts", "stsz", "stsd"].map((name) =>
    find(input, track, ["mdia", "minf", "stbl", name]),
  );
  const codec = description ? readCodec(file, description) : {};
  return {
    id: file.readUInt32BE(head.start + (file[head.start] === 1 ? 20 : 12)),
    timescale: timescaleOf(file, media),
    units: times ? unitsOf(file, times) : 0,
    bytes: sizes ? bytesOf(file, sizes) : 0,
    samples: sizes && sizes.start + 12 <= sizes.end ? file.readUInt32BE(sizes.start + 8) : 0,
    codec,
    reader: readSamples(input, track, codec),
  };
}

/** Whoever decodes a file goes by what its tracks hold; of pictures alone they say so themselves. */
function isOfPictures({ file, ...input }: Input, track: Box): boolean {
  const handler = find({ file, ...input }, track, ["mdia", "hdlr"]);
  return handler !== undefined && file.toString("latin1", handler.start + 8, handler.start + 12) === "vide";
}

// ISO 14496-12, 8.8.7 and 8.8.8: fields stand in fragments where a flag says so.
const hasDuration = 0x100;

/** How long a sample of a fragment is unless it says so itself. */
function usualUnits(file: Buffer, { start, end }: Box, ofTrack: number): number {
  const flags = file.readUInt32BE(start) & 0xffffff;
  const at = start + 8 + ((flags & 1) === 0 ? 0 : 8) + ((flags & 2) === 0 ? 0 : 4);
  return (flags & 8) === 0 || at + 4 > end ? ofTrack : file.readUInt32BE(at);
}

/** Units and bytes of one run of a fragment's samples. */
function readRun(file: Buffer, { start, end }: Box, usual: number): Pick<Track, "units" | "bytes" | "samples"> {
  if (start + 8 > end) return { units: 0, bytes: 0, samples: 0 };
  const flags = file.readUInt32BE(start) & 0xffffff;
  const count = file.readUInt32BE(start + 4);
  const step = 4 * [hasDuration, 0x200, 0x400, 0x800].filter((flag) => (flags & flag) !== 0).length;
  let at = start + 8 + ((flags & 1) === 0 ? 0 : 4) + ((flags & 4) === 0 ? 0 : 4);
  const run = { units: (flags & hasDuration) === 0 ? usual * count : 0, bytes: 0, samples: count };
  if (step === 0) return run;
  for (; at + step <= end; at += step) {
    if ((flags & hasDuration) !== 0) run.units += file.readUInt32BE(at);
    if ((flags & 0x200) !== 0) run.bytes += file.readUInt32BE(at + ((flags & hasDuration) === 0 ? 0 : 4));
  }
  return run;
}

/** The fields of a fragment's head by the bits that say that they are there (8.8.7), from where they begin. */
function headField(file: Buffer, { start, end }: Box, bit: number): number | undefined {
  const flags = file.readUInt32BE(start) & 0xffffff;
  let at = start + 8;
  for (const [flag, bytes] of headFields) {
    if (flag === bit) return (flags & flag) === 0 || at + bytes > end ? undefined : at;
    if ((flags & flag) !== 0) at += bytes;
  }
  return undefined;
}

const [hasBase, hasUsualBytes] = [1, 0x10];
const headFields = [
  [hasBase, 8],
  [2, 4],
  [8, 4],
  [hasUsualBytes, 4],
] as const;

/** Reads the samples of a part of a fragment, which lie from where the fragment begins unless it says where. */
function readParts(input: Input, { part, head, at, ofTrack }: FragmentPart, reader: SampleReader): void {
  const { file } = input;
  const [baseAt, bytesAt] = [headField(file, head, hasBase), headField(file, head, hasUsualBytes)];
  const base = baseAt === undefined ? at : Number(file.readBigUInt64BE(baseAt));
  const usualBytes = bytesAt === undefined ? ofTrack : file.readUInt32BE(bytesAt);
  let next = base;
  for (const run of boxesOf(input, part)) {
    if (run.name === "trun") next = reader.readRun(run, { base, next, usualBytes });
  }
}

/** A track's part of a fragment that begins at `at`; `ofTrack`: bytes of a sample that nothing else tells. */
type FragmentPart = { part: Box; head: Box; at: number; ofTrack: number };

function addRuns(input: Input, part: Box, usual: number, track: Track): void {
  for (const run of boxesOf(input, part)) {
    if (run.name !== "trun") continue;
    const { units, bytes, samples } = readRun(input.file, run, usual);
    track.units += units;
    track.bytes += bytes;
    track.samples += samples;
  }
}

/** How long a sample of a track's fragments is, and how many bytes it has, unless they say so themselves (8.8.3). */
function usualOf(input: Input, movie: Box, { id }: Track): { units: number; bytes: number } {
  const { file } = input;
  const usual = { units: 0, bytes: 0 };
  const defaults = find(input, movie, ["mvex"]);
  if (!defaults) return usual;
  for (const { name, start, end } of boxesOf(input, defaults)) {
    if (name !== "trex" || start + 16 > end || file.readUInt32BE(start + 4) !== id) continue;
    usual.units = file.readUInt32BE(start + 12);
    if (start + 20 <= end) usual.bytes = file.readUInt32BE(start + 16);
  }
  return usual;
}

/** Adds what fragments bring of a track. */
function addFragments(input: Input, movie: Box, track: Track): void {
  const { file } = input;
  const usual = usualOf(input, movie, track);
  for (const fragment of boxesOf(input, { start: 0, end: file.length })) {
    if (fragment.name !== "moof") continue;
    for (const part of boxesOf(input, fragment)) {
      const head = part.name === "traf" ? find(input, part, ["tfhd"]) : undefined;
      if (!head || head.start + 8 > head.end || file.readUInt32BE(head.start + 4) !== track.id) continue;
      addRuns(input, part, usualUnits(file, head, usual.units), track);
      if (track.reader) readParts(input, { part, head, at: fragment.at, ofTrack: usual.bytes }, track.reader);
    }
  }
}

/** Milliseconds of a track: what its times tell, at least as many as its frames last. */
function msOf({ units, timescale, samples, codec: { frameMs = 0 }, reader }: Track): number {
  return Math.max((units / timescale) * 1_000, samples * frameMs, reader?.ms ?? 0);
}

/**
 * The longest sound of an MP4 file, sample by sample, also where it comes in fragments. Its bytes are those of all of
 * its sounds, or of the file, where one of them does not tell and no pictures are among them.
 */
export function readMp4(file: Buffer): Sound | undefined {
  const input = { file, left: maxBoxes, samples: { left: maxSamples } };
  const movie = find(input, { start: 0, end: file.length }, ["moov"]);
  if (!movie) return undefined;
  const tracks: Box[] = [];
  for (const box of boxesOf(input, movie)) if (box.name === "trak") tracks.push(box);
  if (tracks.length > maxTracks) return undefined;
  let [ms, bytes, isFilm, isTold] = [0, 0, false, true];
  const rates: (number | undefined)[] = [];
  for (const box of tracks) {
    if (isOfPictures(input, box)) {
      isFilm = true;
      continue;
    }
    const track = readTrack(input, box);
    if (!track || track.timescale === 0) continue;
    addFragments(input, movie, track);
    ms = Math.max(ms, msOf(track));
    bytes += track.bytes;
    rates.push(track.codec.bytesPerSecond);
    isTold &&= track.bytes > 0;
  }
  if (ms === 0 || input.left < 0) return undefined;
  const isSound = isTold || isFilm;
  return { ms, bytes: isSound ? bytes : file.length, bytesPerSecond: isSound ? mostOf(rates) : undefined };
}

/** The most that any track takes; undefined: that is not known of one. */
const mostOf = (rates: (number | undefined)[]): number | undefined =>
  rates.reduce((most, rate) => (rate === undefined || most === undefined ? undefined : Math.max(rate, most)), 0);
