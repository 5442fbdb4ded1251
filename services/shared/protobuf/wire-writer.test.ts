import assert from "node:assert/strict";
import { test } from "node:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import {
  beginMessage,
  closePart,
  createWireWriter,
  putBytes,
  takeMessage,
  writeBytes,
  writeInt64,
  writeNumber,
  writePresentInt64,
  writePresentText,
  writeText,
  writtenBytes,
} from "./wire-writer.ts";

const fieldNumber = fc.integer({ min: 1, max: 2_000 });
const text = fc.oneof(fc.string({ unit: "binary", maxLength: 200 }), fc.string({ maxLength: 200 }));

type Part =
  | { kind: "number"; field: number; value: number }
  | { kind: "int64"; field: number; value: bigint }
  | { kind: "text"; field: number; value: string }
  | { kind: "bytes"; field: number; value: Uint8Array }
  | { kind: "message"; field: number; parts: Part[] };

const { parts } = fc.letrec<{ parts: Part[]; part: Part }>((tie) => ({
  parts: fc.array(tie("part"), { maxLength: 6 }),
  part: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record({ kind: fc.constant("number"), field: fieldNumber, value: fc.maxSafeNat() }),
    fc.record({
      kind: fc.constant("int64"),
      field: fieldNumber,
      value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    }),
    fc.record({ kind: fc.constant("text"), field: fieldNumber, value: text }),
    fc.record({ kind: fc.constant("bytes"), field: fieldNumber, value: fc.uint8Array({ maxLength: 300 }) }),
    fc.record({ kind: fc.constant("message"), field: fieldNumber, parts: tie("parts") }),
  ) as fc.Arbitrary<Part>,
}));

function writeParts(writer: ReturnType<typeof createWireWriter>, all: readonly Part[]): void {
  for (const part of all.toReversed()) {
    const { field } = part;
    if (part.kind === "number") writeNumber(writer, field, part.value);
    else if (part.kind === "int64") writeInt64(writer, field, part.value);
    else if (part.kind === "text") writeText(writer, field, part.value);
    else if (part.kind === "bytes") writeBytes(writer, field, part.value);
    else {
      const before = writtenBytes(writer);
      writeParts(writer, part.parts);
      closePart(writer, field, before);
    }
  }
}

/** The same by protobuf-es. */
function expected(all: readonly Part[], writer = new BinaryWriter()): BinaryWriter {
  for (const part of all) {
    const { field } = part;
    if (part.kind === "number" && part.value !== 0) writer.tag(field, WireType.Varint).uint64(part.value);
    if (part.kind === "int64" && part.value !== 0n) writer.tag(field, WireType.Varint).int64(part.value);
    if (part.kind === "text" && part.value !== "") writer.tag(field, WireType.LengthDelimited).string(part.value);
    if (part.kind === "bytes" && part.value.length > 0) writer.tag(field, WireType.LengthDelimited).bytes(part.value);
    if (part.kind === "message") expected(part.parts, writer.tag(field, WireType.LengthDelimited).fork()).join();
  }
  return writer;
}

test("any message has the bytes that protobuf-es gives it, however many were taken before from the same slab", () => {
  const writer = createWireWriter();
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 5 }), (messages) => {
      const taken = messages.map((message) => {
        beginMessage(writer);
        writeParts(writer, message);
        return takeMessage(writer);
      });
      // Compared only now: none may lie in another's place.
      for (const [index, message] of messages.entries())
        assert.deepEqual(new Uint8Array(taken[index] ?? []), expected(message).finish());
    }),
    { numRuns: 500 },
  );
});

test("numbers at every edge of their length", () => {
  const writer = createWireWriter();
  for (let bits = 0; bits <= 53; bits += 1) {
    for (const value of [2 ** bits - 1, 2 ** bits].filter(Number.isSafeInteger)) {
      beginMessage(writer);
      writeNumber(writer, 1, value);
      writePresentInt64(writer, 2, BigInt(value));
      const one: Part = { kind: "number", field: 1, value };
      const two = new BinaryWriter().tag(2, WireType.Varint).int64(value);
      const bytes = Buffer.concat([two.finish(), expected([one]).finish()]);
      assert.deepEqual(Buffer.from(takeMessage(writer)), bytes, String(value));
    }
  }
});

test("what is said to be there is written even when it is empty", () => {
  const writer = createWireWriter();
  beginMessage(writer);
  writePresentInt64(writer, 2, 0n);
  writePresentText(writer, 1, "");
  assert.deepEqual([...takeMessage(writer)], [0x0a, 0x00, 0x10, 0x00]);
});

test("a message larger than a slab is whole, and one that was never taken leaves nothing", () => {
  const writer = createWireWriter();
  beginMessage(writer);
  writeText(writer, 1, "left behind");
  beginMessage(writer);
  for (let index = 0; index < 300; index += 1) putBytes(writer, Buffer.alloc(1_000, index));
  const taken = takeMessage(writer);
  assert.equal(taken.length, 300_000);
  assert.deepEqual([taken[0], taken[1_000], taken.at(-1)], [43, 42, 0]);
});
