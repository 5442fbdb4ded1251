import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { measureSound } from "./measure-sound.ts";

// Built by the formats' own rules; the readers were tried on what ffmpeg writes as well.

const bytes = (...parts: (Buffer | string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from(part))));
const le32 = (value: number): Buffer => {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32LE(value);
  return buffer;
};
const be32 = (value: number): Buffer => {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32BE(value);
  return buffer;
};
const repeat = (count: number, part: Buffer): Buffer => Buffer.concat(Array.from({ length: count }, () => part));

/** 16 bits, mono. */
function wav(seconds: number, toldBytes: number, rate = 8_000): Buffer {
  const format = bytes([1, 0, 1, 0], le32(rate), le32(1), [2, 0, 16, 0]);
  const list = bytes("LIST", le32(3), "abc\0");
  const head = bytes("RIFF", le32(0), "WAVEfmt ", le32(16), format, list, "data", le32(toldBytes));
  return bytes(head, Buffer.alloc(seconds * rate * 2));
}

// MPEG 1, layer 3, 64 kbit/s, 32 kHz: 288 bytes and 36 ms.
const mp3Frame = bytes([0xff, 0xfb, 0x58, 0xc0], Buffer.alloc(284));
const mp3 = (frames: number): Buffer => repeat(frames, mp3Frame);
const id3 = bytes("ID3", [4, 0, 0, 0, 0, 1, 0], Buffer.alloc(128, 0xff));
const xing = bytes(mp3Frame.subarray(0, 36), "Xing", [0, 0, 0, 1], be32(1), Buffer.alloc(240));
// AAC, 16 kHz: 100 bytes and 64 ms.
const adtsFrame = bytes([0xff, 0xf1, 0x60, 0x40, 0x0c, 0x9f, 0xfc], Buffer.alloc(93));

function oggPage(packets: Buffer[], position: number, serial = 0): Buffer {
  const positions = Buffer.alloc(8);
  positions.writeBigInt64LE(BigInt(position));
  const sizes = packets.map(({ length }) => length);
  return bytes("OggS", [0, 0], positions, le32(serial), Buffer.alloc(8), [sizes.length], sizes, ...packets);
}
const opusHead = bytes("OpusHead", [1, 1, 0, 0], le32(48_000), [0, 0, 0]);
// 20 ms of CELT each.
const opusPacket = bytes([0xf8], Buffer.alloc(40));
const opus = (packets: number, position: number): Buffer =>
  bytes(
    oggPage([opusHead], 0),
    oggPage([Buffer.from("OpusTags")], 0),
    ...Array.from({ length: packets / 50 }, () =>
      oggPage(
        Array.from({ length: 50 }, () => opusPacket),
        position,
      ),
    ),
  );
const vorbis = bytes(
  oggPage([bytes("\u0001vorbis", le32(0), [1], le32(44_100))], 0),
  oggPage([opusPacket], 441_000),
  Buffer.alloc(1_000),
);

const vorbisHead = oggPage([bytes("\u0001vorbis", le32(0), [1], le32(44_100))], 0, 7);
/** Bits from the lowest of each byte on, each number with how many it takes. */
function lowBits(...numbers: [value: number, bits: number][]): number[] {
  const bits = numbers.flatMap(([value, count]) => Array.from({ length: count }, (_, at) => (value >> at) & 1));
  const octets = Array.from({ length: Math.ceil(bits.length / 8) }, (_, at) => bits.slice(at * 8, at * 8 + 8));
  return octets.map((octet) => octet.reduce((sum, bit, at) => sum + (bit << at), 0));
}
// 44,100 Hz, blocks of 256 and 2,048 samples; a long mode and a short one; packets of the one and of the other.
const vorbisIdent = bytes("\u0001vorbis", le32(0), [1], le32(44_100), Buffer.alloc(12), [0xb8, 1]);
const modesOfVorbis = lowBits([0, 2], [1, 6], [1, 1], [0, 32], [3, 8], [0, 1], [0, 32], [0, 8], [1, 1]);
const longPacket = Buffer.from([0b00, 7, 7]);
const shortPacket = Buffer.from([0b10, 7]);
const vorbisPages = (position: number): Buffer =>
  bytes(
    oggPage([vorbisIdent], 0),
    oggPage([Buffer.from("\u0003vorbis"), bytes("\u0005vorbis", [1, 2, 3, 4, 5], modesOfVorbis)], 0),
    oggPage([longPacket, longPacket, longPacket, shortPacket, shortPacket, longPacket], position),
  );
const vorbisMs = Math.ceil(((1_024 * 2 + 576 + 128 + 576) / 44_100) * 1_000);

// Two frames to a packet.
const speexHead = bytes("Speex   ", Buffer.alloc(28), le32(8_000), Buffer.alloc(24), le32(2), Buffer.alloc(12));
const speexPacket = Buffer.alloc(20);
const speex = bytes(
  oggPage([speexHead], 0),
  oggPage([speexPacket], 0),
  oggPage(
    Array.from({ length: 50 }, () => speexPacket),
    1,
  ),
);

function flac(samples: number): Buffer {
  const bits = Buffer.alloc(8);
  bits.writeBigUInt64BE((44_100n << 44n) | (15n << 36n) | BigInt(samples));
  return bytes("fLaC", be32(34), Buffer.alloc(10), bits, Buffer.alloc(16));
}

const box = (name: string, ...parts: (Buffer | number[])[]): Buffer => {
  const content = bytes(...parts);
  return bytes(be32(content.length + 8), name, content);
};
const handler = (kind: string): Buffer => box("hdlr", be32(0), be32(0), Buffer.from(kind), Buffer.alloc(12));
// AAC at 16 kHz, as its first description says.
const aac = box(
  "stsd",
  be32(0),
  be32(1),
  box("mp4a", Buffer.alloc(24), [0x3e, 0x80, 0, 0], box("esds", be32(0), [3, 25, 0, 0, 0, 4, 17, 0x40, 0x15])),
);
/** A description of samples: of two channels and 16 bits at 16 kHz, and what else is told of them. */
const described = (kind: string, ...more: Buffer[]): Buffer =>
  box(
    "stsd",
    be32(0),
    be32(1),
    box(kind, Buffer.alloc(16), [0, 2, 0, 16], Buffer.alloc(4), [0x3e, 0x80, 0, 0], ...more),
  );
const mp3InMp4 = described("mp4a", box("esds", be32(0), [3, 25, 0, 0, 0, 4, 17, 0x6b, 0x15]));
// 4,096 samples of 24 bits and two channels at 96 kHz to a frame.
const alac = described(
  "alac",
  box("alac", be32(0), be32(4_096), [0, 24, 40, 10, 14, 2], Buffer.alloc(10), be32(96_000)),
);
type TrackSettings = { sampleBytes?: number; units?: number; description?: Buffer };
function track(
  kind: string,
  samples: number,
  { sampleBytes = 100, units = 1_024, description = bytes() }: TrackSettings = {},
): Buffer {
  const head = box("tkhd", be32(0), be32(0), be32(0), be32(1), Buffer.alloc(72));
  const media = box("mdhd", be32(0), be32(0), be32(0), be32(16_000), be32(samples * 1_024), be32(0));
  const times = box("stts", be32(0), be32(samples > 0 ? 1 : 0), be32(samples), be32(units));
  const sizes = box("stsz", be32(0), be32(sampleBytes), be32(samples));
  return box("trak", head, box("mdia", media, handler(kind), box("minf", box("stbl", description, times, sizes))));
}
const mp4 = (...tracks: Buffer[]): Buffer =>
  bytes(box("ftyp", Buffer.from("M4A ")), box("moov", ...tracks), box("mdat", Buffer.alloc(1_000_000)));
const fragment = box(
  "moof",
  box("traf", box("tfhd", be32(0x8), be32(1), be32(512)), box("trun", be32(0), be32(100))),
  box("traf", box("tfhd", be32(0), be32(1)), box("trun", be32(0x300), be32(2), be32(100), be32(9), be32(412), be32(9))),
  box("traf", box("tfhd", be32(0x8), be32(2), be32(512)), box("trun", be32(0), be32(9_000))),
);
const fragmented = bytes(
  box("ftyp", Buffer.from("mp42")),
  box("moov", track("soun", 0), box("mvex", box("trex", be32(0), be32(1), be32(1), be32(7), be32(0), be32(0)))),
  fragment,
  fragment,
);

/** A frame of FLAC of 4,096 samples at 16 kHz, of so many bytes. */
const flacFrame = (number: number): Buffer =>
  bytes(
    [0xff, 0xf8, 0xc5, 0x08],
    number < 128 ? [number] : [0xc0 | (number >> 6), 0x80 | (number & 63)],
    Buffer.alloc(395),
  );
function flacFrames(frames: number, toldSamples: number, rate = 16_000): Buffer {
  const bits = Buffer.alloc(8);
  bits.writeBigUInt64BE((BigInt(rate) << 44n) | (15n << 36n) | BigInt(toldSamples));
  const head = bytes("fLaC", [0x80, 0, 0, 34], [16, 0, 16, 0], Buffer.alloc(6), bits, Buffer.alloc(16));
  return bytes(head, ...Array.from({ length: frames }, (_, number) => flacFrame(number)));
}
function hiResFlac(): Buffer {
  const bits = Buffer.alloc(8);
  bits.writeBigUInt64BE((96_000n << 44n) | (1n << 41n) | (23n << 36n) | 960_000n);
  return bytes("fLaC", be32(34), Buffer.alloc(10), bits, Buffer.alloc(16), Buffer.alloc(3_500_000));
}

const element = (id: number[], ...parts: (Buffer | number[])[]): Buffer => {
  const content = bytes(...parts);
  return bytes(
    id,
    [0x08, 0, 0, 0]
      .map((byte, at) => byte | ((content.length >> ((3 - at) * 8)) & 255))
      .with(0, 0x10 | (content.length >> 24)),
    content,
  );
};
const unknownSize = [0x01, 255, 255, 255, 255, 255, 255, 255];
function webm(codec: string, blocks: number, packet = opusPacket): Buffer {
  const entry = element([0xae], element([0xd7], [1]), element([0x86], Buffer.from(codec)));
  const block = (at: number): Buffer => element([0xa3], [0x81, at >> 8, at & 255, 0x80], packet);
  const cluster = (time: number): Buffer =>
    bytes(
      [0x1f, 0x43, 0xb6, 0x75],
      unknownSize,
      element([0xe7], be32(time)),
      ...Array.from({ length: blocks }, (_, at) => block(at * 20)),
    );
  const head = element([0x1a, 0x45, 0xdf, 0xa3], Buffer.alloc(4));
  return bytes(
    head,
    [0x18, 0x53, 0x80, 0x67],
    unknownSize,
    element([0x16, 0x54, 0xae, 0x6b], entry),
    cluster(0),
    cluster(1_000),
  );
}

/** Blocks of fifty packets, each told by its size or by how it differs. */
function lacedWebm(): Buffer {
  const entry = element([0xae], element([0xd7], [1]), element([0x86], Buffer.from("A_OPUS")));
  const packets = repeat(50, opusPacket);
  const sizes = Array.from({ length: 49 }, () => opusPacket.length);
  const differences = Array.from({ length: 48 }, () => 0x80 | 63);
  const xiph = element([0xa3], [0x81, 0, 0, 0x82, 49], sizes, packets);
  const ebml = element([0xa3], [0x81, 0, 0, 0x86, 49, 0x80 | opusPacket.length], differences, packets);
  const head = element([0x1a, 0x45, 0xdf, 0xa3], Buffer.alloc(4));
  return bytes(head, [0x18, 0x53, 0x80, 0x67], unknownSize, element([0x16, 0x54, 0xae, 0x6b], entry), xiph, ebml);
}
const laced = lacedWebm();

const format = (rate: number): Buffer => bytes("fmt ", le32(16), [1, 0, 1, 0], le32(rate), le32(1), [2, 0, 16, 0]);
// The length of a tag, 11,201 bytes, and in it a format of which a second has many bytes.
const disguise = bytes("WAVE", format(192_000), "data", le32(1), Buffer.alloc(11_201 - 34));

const measured: [what: string, file: Buffer, ms: number][] = [
  ["WAV", wav(3, 48_000), 3_000],
  ["WAV whose head tells less", wav(3, 2), 3_000],
  ["WAV that was written while it was recorded", wav(3, 0xffffffff), 3_000],
  ["MP3", mp3(100), 3_600],
  ["MP3 behind a tag", bytes(id3, mp3(100)), 3_600],
  ["MP3 whose head tells one frame", bytes(xing, mp3(99)), 3_600],
  ["MP3 with something between its frames", bytes(mp3(50), "junk \xff\xff", mp3(50)), 3_600],
  ["AAC", repeat(100, adtsFrame), 6_400],
  ["Opus in Ogg", opus(500, 480_000), 10_000],
  ["Opus in Ogg whose pages tell less", opus(500, 1), 10_000],
  ["Vorbis", vorbis, 10_000],
  ["Vorbis whose pages tell less, packet by packet", vorbisPages(1), vorbisMs],
  ["Vorbis whose pages tell more, as where something is missing", vorbisPages(5_292), 120],
  ["FLAC that lasts longer than its bytes can", flac(441_000), 42 * 32],
  ["FLAC", bytes(flac(441_000), Buffer.alloc(9_000)), 10_000],
  ["MP4", mp4(track("soun", 1_000)), 64_000],
  ["a film, of whose bytes few are sound", mp4(track("vide", 90_000), track("soun", 100)), 6_400],
  ["MP4 whose table tells less than its bytes are", mp4(track("soun", 10, { sampleBytes: 40_000 })), 10_000],
  ["MP4 whose times tell nothing", mp4(track("soun", 1_000, { units: 1, description: aac })), 64_000],
  ["MP3 in MP4 whose times tell nothing", mp4(track("soun", 1_000, { units: 1, description: mp3InMp4 })), 36_000],
  [
    "AMR in MP4 whose times tell nothing",
    mp4(track("soun", 1_000, { units: 1, description: described("samr") })),
    62_500,
  ],
  [
    "AMR in MP4 at its own pace",
    mp4(track("soun", 1_000, { units: 320, sampleBytes: 32, description: described("samr") })),
    20_000,
  ],
  [
    "ALAC in MP4, which takes more than any lossy sound",
    mp4(track("soun", 100, { units: 683, sampleBytes: 16_000, description: alac })),
    4_269,
  ],
  ["ALAC in MP4 whose times tell nothing", mp4(track("soun", 300, { units: 1, description: alac })), 12_800],
  [
    "samples as they are in MP4",
    mp4(track("soun", 160_000, { units: 1, sampleBytes: 4, description: described("sowt") })),
    10_000,
  ],
  ["FLAC in WebM, which takes more than any lossy sound", webm("A_FLAC", 50, Buffer.alloc(2_000)), 1_980],
  ["FLAC of a high resolution", hiResFlac(), 10_000],
  ["FLAC as its head tells, of frames that tell about as much", flacFrames(100, 400_000), 25_000],
  ["FLAC whose head tells one sample", flacFrames(100, 1), 25_600],
  ["FLAC whose head tells another rate than its frames", flacFrames(100, 400_000, 192_000), 25_000],
  ["MP4 whose sound has another name", mp4(track("soun", 10), track("data", 1_000)), 64_000],
  [
    "MP4 with more tracks than anybody needs",
    mp4(...Array.from({ length: 20 }, () => track("soun", 1)), track("soun", 99)),
    6_336,
  ],
  [
    "MP4 with a short track beside a large one",
    mp4(track("soun", 9, { sampleBytes: 40_000, units: 1 }), track("soun", 1)),
    9_003,
  ],
  ["MP3 behind a tag that holds the head of a WAV file", bytes("ID3", [4, 0, 0, 0, 0], disguise, mp3(100)), 3_600],
  [
    "WAV that tells two formats",
    bytes("RIFF", le32(0), "WAVE", format(8_000), format(192_000), "data", le32(1), Buffer.alloc(48_000)),
    3_000,
  ],
  [
    "MP3 in WAV",
    bytes(
      "RIFF",
      le32(0),
      "WAVEfmt ",
      le32(16),
      [0x55, 0, 1, 0],
      le32(8_000),
      le32(9e8),
      [1, 0, 0, 0],
      "data",
      le32(1),
      mp3(100),
    ),
    3_600,
  ],
  ["Opus in Ogg behind a short stream of another kind", bytes(vorbisHead, opus(500, 1)), 10_000],
  ["Speex whose pages tell less", speex, 2 * 20 * 50],
  ["Opus in WebM, many packets to a block", laced, 2_000],
  ["MP4 in fragments", fragmented, 2 * ((100 * 512 + 512) / 16)],
  ["Opus in WebM", webm("A_OPUS", 50), 2_000],
  ["Vorbis in WebM", webm("A_VORBIS", 50), 1_980],
];

describe("how long a file sounds is read from its content", () => {
  for (const [what, file, ms] of measured) {
    test(what, () => assert.deepEqual(measureSound(file), { leastMs: ms, mostMs: ms }));
  }

  test("a file that nobody can read is bounded by its bytes", () => {
    assert.deepEqual(measureSound(Buffer.alloc(1_764_000, 1)), { leastMs: 10_000, mostMs: 441_000 });
    assert.deepEqual(measureSound(Buffer.alloc(0)), { leastMs: 0, mostMs: 0 });
  });

  test("a lossy file lasts at least as long as at the highest rate", () => {
    const few = bytes(opus(50, 1), Buffer.alloc(4_000_000));
    assert.ok(measureSound(few).leastMs > 100_000);
  });

  test("whatever a file is, reading it throws nothing and ends", () => {
    const files = measured.map(([, file]) => file.subarray(0, 4_000));
    fc.assert(
      fc.property(
        fc.constantFrom(...files),
        fc.array(fc.tuple(fc.nat(4_000), fc.nat(255)), { maxLength: 40 }),
        fc.nat(4_000),
        (file, changes, length) => {
          const changed = Buffer.from(file.subarray(0, length));
          for (const [at, byte] of changes) if (at < changed.length) changed[at] = byte;
          const { leastMs, mostMs } = measureSound(changed);
          assert.ok(Number.isFinite(leastMs) && leastMs >= 0 && mostMs >= leastMs);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
