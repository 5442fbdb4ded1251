import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { measureSound } from "./measure-sound.ts";
import { SampleReader } from "./mp4-samples.ts";

// Files whose times tell less than their packets last: decoders go by the packets, and so do providers' bills.

const bytes = (...parts: (Buffer | string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from(part))));
function be32(...values: number[]): Buffer {
  const buffer = Buffer.alloc(4 * values.length);
  values.forEach((value, at) => buffer.writeUInt32BE(value >>> 0, 4 * at));
  return buffer;
}
const repeat = (count: number, part: (at: number) => Buffer): Buffer[] =>
  Array.from({ length: count }, (_, at) => part(at));

const box = (name: string, ...parts: Buffer[]): Buffer => {
  const content = bytes(...parts);
  return bytes(be32(content.length + 8), name, content);
};
const ftyp = box("ftyp", Buffer.from("M4A "));

/** A description of samples: of two channels and 16 bits at 16 kHz. */
const described = (kind: string): Buffer =>
  box("stsd", be32(0, 1), box(kind, Buffer.alloc(16), bytes([0, 2, 0, 16, 0, 0, 0, 0, 0x3e, 0x80, 0, 0])));

/** A track of 16,000 units a second, each sample of which is said to last one of them. */
const trackOf = (kind: string, count: number, ...tables: Buffer[]): Buffer => {
  const head = box("tkhd", be32(0, 0, 0, 1), Buffer.alloc(72));
  const media = box("mdhd", be32(0, 0, 0, 16_000, count, 0));
  const handler = box("hdlr", be32(0, 0), Buffer.from("soun"), Buffer.alloc(12));
  const times = box("stts", be32(0, 1, count, 1));
  return box("trak", head, box("mdia", media, handler, box("minf", box("stbl", described(kind), times, ...tables))));
};

const mdatAt = ftyp.length + 8;
const sizesOf = (samples: Buffer[]): Buffer => be32(...samples.map(({ length }) => length));

/** Samples in two chunks, of which the second holds one. */
function chunked(kind: string, samples: Buffer[], isWide = false): Buffer {
  const firsts = samples.slice(0, -1);
  const places = [mdatAt, mdatAt + bytes(...firsts).length];
  const sizes = box("stsz", be32(0, 0, samples.length), sizesOf(samples));
  const chunks = box("stsc", be32(0, 2, 1, firsts.length, 1, 2, 1, 1));
  const table = isWide
    ? box("co64", be32(0, 2, ...places.flatMap((place) => [0, place])))
    : box("stco", be32(0, 2, ...places));
  return bytes(ftyp, box("mdat", ...samples), box("moov", trackOf(kind, samples.length, sizes, chunks, table)));
}

/** Samples of one size in a fragment, which lie behind it. */
function fragmented(kind: string, samples: Buffer[]): Buffer {
  const size = samples[0]?.length ?? 0;
  const defaults = box("mvex", box("trex", be32(0, 1, 1, 1, size, 0)));
  const moof = (place: number): Buffer =>
    box("moof", box("traf", box("tfhd", be32(0x20000, 1)), box("trun", be32(1, samples.length, place))));
  const fragment = moof(moof(0).length + 8);
  const moov = box("moov", trackOf(kind, 0, box("stsz", be32(0, 0, 0))), defaults);
  return bytes(ftyp, moov, fragment, box("mdat", ...samples), fragment, box("mdat", ...samples));
}

// 20 ms of music, and 60 ms of speech.
const [music, speech] = [bytes([0xf8], Buffer.alloc(9)), bytes([0x18], Buffer.alloc(5))];
const opus = [...repeat(50, () => music), ...repeat(50, () => speech)];
// 4,096 samples at 16 kHz by their number, and 1,000 by what stands behind the number of the frame.
const flac = [
  ...repeat(20, (at) => bytes([0xff, 0xf8, 0xc5, 0x08, at], Buffer.alloc(195))),
  bytes([0xff, 0xf8, 0x75, 0x08, 20, 0x03, 0xe7], Buffer.alloc(193)),
];

function element(id: number[], ...parts: (Buffer | number[])[]): Buffer {
  const content = bytes(...parts);
  return bytes(id, [0x10 | (content.length >> 24)], be32(content.length).subarray(1), content);
}

/** Bits from the lowest of each byte on, each number with how many it takes. */
function lowBits(...numbers: [value: number, bits: number][]): number[] {
  const bits = numbers.flatMap(([value, count]) => Array.from({ length: count }, (_, at) => (value >> at) & 1));
  const octets = Array.from({ length: Math.ceil(bits.length / 8) }, (_, at) => bits.slice(at * 8, at * 8 + 8));
  return octets.map((octet) => octet.reduce((sum, bit, at) => sum + (bit << at), 0));
}

/** Vorbis of 44,100 Hz in WebM: long blocks of 2,048 samples, all of them at the time 0. */
function vorbisInWebm(blocks: number, isPrivateFirst: boolean): Buffer {
  const ident = bytes("\u0001vorbis", [0, 0, 0, 0, 1, 0x44, 0xac, 0, 0], Buffer.alloc(12), [0xb8, 1]);
  const modes = lowBits([0, 2], [1, 6], [1, 1], [0, 32], [3, 8], [0, 1], [0, 32], [0, 8], [1, 1]);
  const setup = bytes("\u0005vorbis", [1, 2, 3, 4, 5], modes);
  const comment = bytes("\u0003vorbis", Buffer.alloc(300));
  const headers = bytes([2, ident.length, 255, comment.length - 255], ident, comment, setup);
  const told = [element([0x86], Buffer.from("A_VORBIS")), element([0x63, 0xa2], headers)];
  const entry = element([0xae], element([0xd7], [1]), ...(isPrivateFirst ? told.toReversed() : told));
  const block = element([0xa3], [0x81, 0, 0, 0x80], [0, 7, 7]);
  const cluster = element([0x1f, 0x43, 0xb6, 0x75], element([0xe7], [0]), ...repeat(blocks, () => block));
  const segment = element([0x18, 0x53, 0x80, 0x67], element([0x16, 0x54, 0xae, 0x6b], entry), cluster);
  return bytes(element([0x1a, 0x45, 0xdf, 0xa3], Buffer.alloc(4)), segment);
}

const flacMs = Math.ceil(((20 * 4_096 + 1_000) / 16_000) * 1_000);
const vorbisMs = Math.ceil((99 * 1_024 * 1_000) / 44_100);
const files: [what: string, file: Buffer, ms: number][] = [
  ["Opus in MP4", chunked("Opus", opus), 4_000],
  ["Opus in MP4 by wide places", chunked("Opus", opus, true), 4_000],
  ["Opus in fragments of MP4", fragmented("Opus", opus.slice(0, 50)), 2_000],
  ["FLAC in MP4", chunked("fLaC", flac), flacMs],
  ["Vorbis in WebM", vorbisInWebm(100, false), vorbisMs],
  ["Vorbis in WebM, its headers before its name", vorbisInWebm(100, true), vorbisMs],
];

describe("what packets last counts, where the times of a file tell less", () => {
  for (const [what, file, ms] of files) {
    test(what, () => assert.deepEqual(measureSound(file), { leastMs: ms, mostMs: ms }));
  }

  test("samples are read once: not again where others do lie, and none beyond the file", () => {
    const told = [be32(0, 10, 0xffffffff), be32(0, 1, 1, 0xffffffff, 1), be32(0, 3, 96, 96, 96)];
    const starts = [0, 12, 32];
    const file = bytes(...told, Buffer.alloc(4), ...opus);
    const [sizes, chunks, places] = starts.map((start, at) => ({ start, end: start + (told[at]?.length ?? 0) }));
    assert.ok(sizes && chunks && places);
    const readOf = (left: number): number => {
      const reader = new SampleReader(file, () => 20, { left });
      reader.readChunks({ sizes, chunks, places, isWide: false });
      return reader.ms;
    };
    assert.equal(readOf(1_000), 20 * Math.floor((file.length - 96) / 10));
    assert.equal(readOf(7), 20 * 7, "and no more than may be");
  });

  test("whatever the bytes of such a file are, reading it throws nothing and ends", () => {
    const damaged = fc.tuple(
      fc.constantFrom(...files.map(([, file]) => file)),
      fc.array(fc.tuple(fc.nat(), fc.nat(255))),
    );
    const check = fc.property(damaged, ([file, changes]) => {
      const copy = Buffer.from(file);
      for (const [at, value] of changes) copy[at % copy.length] = value;
      const { leastMs, mostMs } = measureSound(copy);
      assert.ok(leastMs >= 0 && mostMs >= leastMs);
    });
    fc.assert(check, { numRuns: 500 });
  });
});
