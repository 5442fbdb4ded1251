import assert from "node:assert/strict";
import { test } from "node:test";
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import {
  BrokenMessage,
  enterMessage,
  leaveMessage,
  lengthTag,
  openReader,
  readBool,
  readBytes,
  readInt32,
  readInt64,
  readTag,
  readText,
  readUint32,
  skip,
  varintTag,
  type WireReader,
} from "./wire-reader.ts";

const readerOf = (write: (writer: BinaryWriter) => unknown): WireReader => {
  const writer = new BinaryWriter();
  write(writer);
  return openReader(Buffer.from(writer.finish()));
};

const around = (bits: number): bigint[] => [-1n, 0n, 1n].map((more) => (1n << BigInt(bits)) + more);

test("int64 is exact within 2^53 - 1, and beyond it is never taken for a safe integer", () => {
  const amounts = [0n, ...Array.from({ length: 63 }, (_, bits) => around(bits)).flat(), (1n << 63n) - 1n];
  for (const amount of amounts.flatMap((positive) => [positive, -positive])) {
    const reader = readerOf((writer) => writer.int64(amount));
    const read = readInt64(reader);
    assert.equal(reader.at, reader.end);
    if (BigInt.asIntN(54, amount) === amount && amount !== -(1n << 53n)) assert.equal(BigInt(read), amount);
    else assert.ok(!Number.isSafeInteger(read), `${amount} was read as ${read}`);
    assert.equal(Math.sign(read), Number(amount === 0n ? 0n : amount > 0n ? 1n : -1n));
  }
});

test("int32, uint32 and bool are read as they were written", () => {
  for (const number of [0, 1, 127, 128, 16_384, 2 ** 31 - 1, -1, -(2 ** 31)]) {
    assert.equal(readInt32(readerOf((writer) => writer.int32(number))), number);
    assert.equal(readUint32(readerOf((writer) => writer.uint32(number >>> 0))), number >>> 0);
  }
  for (const isTrue of [true, false]) assert.equal(readBool(readerOf((writer) => writer.bool(isTrue))), isTrue);
});

test("texts and bytes of any length are read, and bytes are not copied", () => {
  for (const text of ["", "a", "é", "a line\n", "😀", "\ufeffmark", "\ufffd", "x".repeat(20_000), "ß".repeat(500)]) {
    assert.equal(readText(readerOf((writer) => writer.string(text))), text);
    const reader = readerOf((writer) => writer.bytes(Buffer.from(text)));
    const bytes = readBytes(reader);
    assert.equal(bytes.toString(), text);
    assert.equal(bytes.buffer, reader.bytes.buffer);
  }
});

function readInner(reader: WireReader): string {
  let text = "";
  const outer = enterMessage(reader);
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === lengthTag(1)) text = readText(reader);
    else skip(reader, tag);
  }
  leaveMessage(reader, outer);
  return text;
}

test("fields that are not known are passed over, messages end where they say", () => {
  const reader = readerOf((writer) => {
    writer.tag(9, 0).int64(-5n).tag(10, 1).double(0.5).tag(11, 2).string("other").tag(12, 5).float(0.5);
    writer.tag(3, 2).fork().tag(1, 2).string("inner").tag(1_000, 0).uint32(7).join();
    writer.tag(2, 0).uint32(8);
  });
  const seen: unknown[] = [];
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === varintTag(2)) seen.push(readUint32(reader));
    else if (tag === lengthTag(3)) seen.push(readInner(reader));
    else skip(reader, tag);
  }
  assert.deepEqual(seen, ["inner", 8]);
});

const broken: [what: string, bytes: number[], read: (reader: WireReader) => unknown][] = [
  ["a number without an end", [0x80], readInt64],
  ["no number", [], readUint32],
  ["a number of eleven bytes", [...Array.from({ length: 10 }, () => 0xff), 0x01], readInt64],
  ["a field number of 0", [0x02, 0x00], readTag],
  ["a text beyond the end", [0x03, 0x61], readText],
  ["a text that is not UTF-8", [0x02, 0xc3, 0x28], readText],
  ["bytes beyond the end", [0xff, 0xff, 0xff, 0xff, 0x0f, 0x61], readBytes],
  ["a message beyond the end", [0x02, 0x08], enterMessage],
  ["an unknown field beyond the end", [0x61], (reader) => skip(reader, 8 * 7 + 5)],
  ["a long unknown field beyond the end", [0x61], (reader) => skip(reader, 8 * 7 + 1)],
  ["a group", [0x61], (reader) => skip(reader, 8 * 7 + 3)],
];

for (const [what, bytes, read] of broken) {
  test(`${what} is refused`, () => {
    assert.throws(() => read(openReader(Buffer.from(bytes))), BrokenMessage);
  });
}

test("an inner message cannot read beyond its own end", () => {
  const reader = openReader(Buffer.from([0x02, 0x08, 0x80, 0x01]));
  enterMessage(reader);
  assert.equal(readTag(reader), 8);
  assert.throws(() => readInt64(reader), BrokenMessage);
});
