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
