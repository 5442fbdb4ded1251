import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTally } from "../dialect.ts";
import { dialects } from "../index.ts";
import { readJsonBody } from "../json/request-body.ts";
import { streamBytes } from "../sse.ts";

// "Speak slowly" makes more sound of a text than its characters tell, and no provider tells tokens beside bytes.

const second = 48_000;

/** Tokens that are counted of sound which comes in these pieces; undefined: as many as the text lets expect. */
function countOf(fields: object, pieces: Buffer[]): bigint | undefined {
  const json = { model: "m", voice: "v", input: "Hello", ...fields };
  const envelope = dialects["openai-speech"].readEnvelope(readJsonBody(Buffer.from(JSON.stringify(json))), "m");
  const tally = emptyTally();
  const tap = dialects["openai-speech"].createTap(envelope, (error) => error);
  for (const piece of pieces) tap.read(streamBytes(piece), tally);
  return tally.counted.audioOutputTokens;
}

/** A WAV file's head, of so many bytes a second. */
function headOf(rate: number): Buffer {
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(rate, 28);
  return head;
}

// Frames of MPEG 2, layer 3, 24,000 samples a second: 64 kbit/s are 192 bytes for 24 ms.
const mp3 = Buffer.concat(Array.from({ length: 125 }, () => Buffer.from([0xff, 0xf3, 0x84, ...Array(189).fill(0)])));

// FLAC, 24,000 samples of 16 bits a second, mono: 600 frames of 4,000 samples are 100 s.
const streamInfo = Buffer.alloc(34);
streamInfo.writeUInt16BE(4_000, 0);
streamInfo.writeUInt16BE(4_000, 2);
streamInfo.writeBigUInt64BE((24_000n << 44n) | (15n << 36n), 10);
const comment = Buffer.alloc(1_000, 0xff);
const flacHead = Buffer.concat([Buffer.from("fLaC\0\0\0\u0022"), streamInfo, Buffer.from([0x84, 0, 3, 0xe8]), comment]);
const frameNumber = (at: number): number[] => (at < 128 ? [at] : [0xc0 | (at >> 6), 0x80 | (at & 63)]);
const flac = Array.from({ length: 600 }, (_, at) =>
  Buffer.concat([Buffer.from([0xff, 0xf8, 0x76, 0x08, ...frameNumber(at)]), Buffer.alloc(3_000, 7)]),
);

function oggPage(packets: Buffer[]): Buffer {
  const head = Buffer.alloc(27);
  head.write("OggS");
  head[26] = packets.length;
  return Buffer.concat([head, Buffer.from(packets.map(({ length }) => length)), ...packets]);
}
// Opus: 20 ms of CELT in a packet, 50 packets on a page.
const opusHead = oggPage([Buffer.from("OpusHead\u0001\u0001........")]);
const opusTags = oggPage([Buffer.from("OpusTags")]);
const opusPage = oggPage(Array.from({ length: 50 }, () => Buffer.from([0xf8, ...Array<number>(60).fill(1)])));
const opus: Buffer[] = [opusHead, opusTags, ...Array<Buffer>(100).fill(opusPage)];

const inPieces = (sound: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(sound.length / size) }, (_, at) => sound.subarray(at * size, (at + 1) * size));

const near = (tokens: bigint | undefined, wanted: bigint): boolean =>
  tokens !== undefined && tokens >= (wanted * 97n) / 100n && tokens <= (wanted * 103n) / 100n;

const measured: [what: string, sound: Buffer, tokens: bigint][] = [
  ["100 seconds of FLAC", Buffer.concat([flacHead, ...flac]), 2_000n],
  ["100 seconds of Opus", Buffer.concat(opus), 2_000n],
  ["30 seconds of MP3", Buffer.concat(Array<Buffer>(10).fill(mp3)), 600n],
];
for (const [what, sound, tokens] of measured) {
  for (const size of [50, 5_000, sound.length]) {
    test(`${what} are about ${tokens} tokens, in pieces of ${size} bytes`, () => {
      const counted = countOf({}, inPieces(sound, size));
      assert.ok(near(counted, tokens), String(counted));
    });
  }
}

test("FLAC of which no frame is known counts as what its samples take uncompressed", () => {
  assert.ok(near(countOf({}, [flacHead, Buffer.alloc(10 * second)]), 200n));
});

const rows: [what: string, fields: object, pieces: Buffer[], tokens: bigint | undefined][] = [
  ["ten seconds of samples", { response_format: "pcm" }, Array(10).fill(Buffer.alloc(second)), 200n],
  ["as much as is expected", { response_format: "pcm" }, [Buffer.alloc(second / 10)], undefined],
  ["ten seconds of a WAV file", { response_format: "wav" }, [headOf(32_000), Buffer.alloc(320_000)], 201n],
  ["a WAV file whose head tells nothing", { response_format: "wav" }, [headOf(0), Buffer.alloc(1_764_000)], 201n],
  ["three seconds of MP3, and thirty", {}, [mp3, ...Array(10).fill(mp3)], 660n],
  ["sound of an unknown kind, at the most that it may be", {}, [Buffer.alloc(400_000)], 200n],
];
for (const [what, fields, pieces, tokens] of rows) {
  test(`${what}: ${tokens ?? "no more"} tokens`, () => assert.equal(countOf(fields, pieces), tokens));
}
