/**
 * Writes protobuf by hand, from the end of a message to its beginning: so the length of a part is known when it is
 * written, and nothing is measured before or moved afterwards. Fields are therefore written last one first.
 *
 * Messages are packed into slabs, from `end` downwards; what lies behind `end` belongs to those already taken.
 */
export type WireWriter = { slab: Buffer; at: number; end: number };

const slabBytes = 65_536;

export function createWireWriter(): WireWriter {
  const slab = Buffer.allocUnsafeSlow(slabBytes);
  return { slab, at: slabBytes, end: slabBytes };
}

/** Begins a message; what was written of one that was never taken is dropped. */
export function beginMessage(writer: WireWriter): void {
  writer.at = writer.end;
}

/** Takes the message that was written. Its bytes are nobody else's: they may be kept and sent as they are. */
export function takeMessage(writer: WireWriter): Buffer {
  const { slab, at, end } = writer;
  writer.end = at;
  return slab.subarray(at, end);
}

/** How many bytes of the message are written: said before the fields of a part, see closePart. */
export function writtenBytes(writer: WireWriter): number {
  return writer.end - writer.at;
}

/** What is written of the message, until more is. */
export function writtenMessage({ slab, at, end }: WireWriter): Buffer {
  return slab.subarray(at, end);
}

/** Writes what stands before a part, such as a message within the message, that began when so many were written. */
export function closePart(writer: WireWriter, field: number, writtenBefore: number): void {
  putVarint(writer, writer.end - writer.at - writtenBefore);
  putVarint(writer, (field << 3) | 2);
}

/** Makes room for so many bytes, and gives where they begin. */
function makeRoom(writer: WireWriter, bytes: number): number {
  if (writer.at < bytes) moveToNewSlab(writer, bytes);
  writer.at -= bytes;
  return writer.at;
}

function moveToNewSlab(writer: WireWriter, bytes: number): void {
  const { slab, at, end } = writer;
  const size = Math.max(slabBytes, 2 * (end - at + bytes));
  const larger = Buffer.allocUnsafeSlow(size);
  const newAt = size - (end - at);
  slab.copy(larger, newAt, at, end);
  writer.slab = larger;
  writer.at = newAt;
  writer.end = size;
}

const low28 = 2 ** 28;

/** Writes a whole number from 0 to 2^53 - 1. */
function putVarint(writer: WireWriter, value: number): void {
  if (value < 0x80) {
    const at = makeRoom(writer, 1);
    writer.slab[at] = value;
    return;
  }
  // The operators on bits see 32 of them: a larger number is written in two parts.
  let rest = value;
  let bytes = 1;
  let low = -1;
  if (value >= low28) {
    low = value % low28;
    rest = Math.floor(value / low28);
    bytes = 5;
  }
  for (let left = rest >>> 7; left > 0; left >>>= 7) bytes += 1;
  let at = makeRoom(writer, bytes);
  const { slab } = writer;
  if (low >= 0) {
    for (let index = 0; index < 4; index += 1) {
      slab[at++] = (low & 0x7f) | 0x80;
      low >>>= 7;
    }
  }
  for (; rest > 0x7f; rest >>>= 7) slab[at++] = (rest & 0x7f) | 0x80;
  slab[at] = rest;
}

/** Writes any int64 or uint64 as the ten bytes or fewer that protobuf has for it. */
function putLarge(writer: WireWriter, value: bigint): void {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  const at = makeRoom(writer, bytes.length);
  writer.slab.set(bytes, at);
}

/** Writes a whole number from 0 to 2^53 - 1, an enum's or a bool's too; 0 is left out. */
export function writeNumber(writer: WireWriter, field: number, value: number): void {
  if (value === 0) return;
  putVarint(writer, value);
  putVarint(writer, field << 3);
}

/** Writes an int64 or uint64; 0 is left out. */
export function writeInt64(writer: WireWriter, field: number, value: bigint): void {
  if (value !== 0n) writePresentInt64(writer, field, value);
}

/** Writes an int64 or uint64 that is said to be there even when it is 0. */
export function writePresentInt64(writer: WireWriter, field: number, value: bigint): void {
  const number = Number(value);
  if (number >= 0 && number <= Number.MAX_SAFE_INTEGER) putVarint(writer, number);
  else putLarge(writer, value);
  putVarint(writer, field << 3);
}

/** Writes bytes; none are left out. */
export function writeBytes(writer: WireWriter, field: number, value: Uint8Array): void {
  if (value.length === 0) return;
  putBytes(writer, value);
  putVarint(writer, value.length);
  putVarint(writer, (field << 3) | 2);
}

/** Writes bytes as they are, such as fields that were encoded before. */
export function putBytes(writer: WireWriter, value: Uint8Array): void {
  const at = makeRoom(writer, value.length);
  writer.slab.set(value, at);
}

/** Writes a text; an empty one is left out. */
export function writeText(writer: WireWriter, field: number, value: string): void {
  if (value !== "") writePresentText(writer, field, value);
}

/** Writes a text that is said to be there even when it is empty, as an item of a list is. */
export function writePresentText(writer: WireWriter, field: number, value: string): void {
  putVarint(writer, putText(writer, value));
  putVarint(writer, (field << 3) | 2);
}

// Up to about this length a loop is faster than a call into the runtime.
const shortText = 64;

/** Gives the number of bytes written. */
function putText(writer: WireWriter, value: string): number {
  const { length } = value;
  if (length <= shortText) {
    const at = makeRoom(writer, length);
    const { slab } = writer;
    let index = 0;
    for (; index < length; index += 1) {
      const code = value.charCodeAt(index);
      if (code > 0x7f) break;
      slab[at + index] = code;
    }
    if (index === length) return length;
    writer.at += length;
  }
  const bytes = Buffer.byteLength(value);
  const at = makeRoom(writer, bytes);
  writer.slab.write(value, at, bytes, "utf8");
  return bytes;
}
