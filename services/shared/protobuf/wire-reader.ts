import { isUtf8 } from "node:buffer";

/**
 * Reads the few messages of which thousands come a second, straight into what is made of them. All others are read by
 * their schemas. A decoder loops over `readTag` and calls the read function of each field it knows, `skip` for others.
 */
export type WireReader = { bytes: Buffer; at: number; end: number };

/** Thrown for bytes that are no message. */
export class BrokenMessage extends Error {}

const wireType = { varint: 0, fixed64: 1, lengthDelimited: 2, fixed32: 5 } as const;

/** The tag of a field that is a number, an enum or a bool. */
export const varintTag = (field: number): number => field * 8;

/** The tag of a field that is a string, bytes or a message. */
export const lengthTag = (field: number): number => field * 8 + 2;

export function openReader(bytes: Buffer): WireReader {
  return { bytes, at: 0, end: bytes.length };
}

/** Number and type of the next field as one number; 0 at the end of the message. */
export function readTag(reader: WireReader): number {
  const from = reader.at;
  if (from >= reader.end) return 0;
  const tag = readUint32(reader);
  if (tag < 8) throw new BrokenMessage("a field has the number 0");
  // Cut to 32 bits it would be another field, and the schemas of others that read the same bytes refuse it.
  const length = reader.at - from;
  if (length > 4 && (length > 5 || (reader.bytes[reader.at - 1] as number) > 0x0f)) {
    throw new BrokenMessage("a tag has more than 32 bits");
  }
  return tag;
}

/** The low 32 bits of a number, which is what an int32, an enum and a uint32 are. */
export function readInt32(reader: WireReader): number {
  return readUint32(reader) | 0;
}

export function readBool(reader: WireReader): boolean {
  return readInt64(reader) !== 0;
}

export function readUint32(reader: WireReader): number {
  const first = reader.at < reader.end ? (reader.bytes[reader.at] as number) : 0x80;
  if (first < 0x80) {
    reader.at += 1;
    return first;
  }
  readWords(reader);
  return low;
}

/**
 * An int64 as a number: exact when it is a safe integer, else one of the right size that is not one either. A uint64
 * from 2^63 on reads as negative.
 */
export function readInt64(reader: WireReader): number {
  const first = reader.at < reader.end ? (reader.bytes[reader.at] as number) : 0x80;
  if (first < 0x80) {
    reader.at += 1;
    return first;
  }
  readWords(reader);
  return (high | 0) * 0x1_0000_0000 + low;
}

// The last number that was read. Two words rather than a bigint, which would be an object for each.
let low = 0;
let high = 0;

function readWords(reader: WireReader): void {
  const { bytes, end } = reader;
  let { at } = reader;
  low = 0;
  high = 0;
  for (let shift = 0; shift < 70; shift += 7) {
    if (at >= end) throw new BrokenMessage("a number ends too early");
    const byte = bytes[at++] as number;
    const bits = byte & 0x7f;
    if (shift < 28) low |= bits << shift;
    else if (shift === 28) {
      low |= bits << 28;
      high = bits >> 4;
    } else high |= bits << (shift - 32);
    if (byte < 0x80) {
      low >>>= 0;
      reader.at = at;
      return;
    }
  }
  throw new BrokenMessage("a number has more than ten bytes");
}

function readEnd(reader: WireReader): number {
  const length = readUint32(reader);
  const to = reader.at + length;
  if (to > reader.end) throw new BrokenMessage("a field ends after its message");
  return to;
}

/** A part of the message's own memory, not a copy. */
export function readBytes(reader: WireReader): Buffer {
  const to = readEnd(reader);
  const found = reader.bytes.subarray(reader.at, to);
  reader.at = to;
  return found;
}

export function readText(reader: WireReader): string {
  const to = readEnd(reader);
  const from = reader.at;
  reader.at = to;
  if (from === to) return "";
  const text = reader.bytes.toString("utf8", from, to);
  if (text.includes("\ufffd") && !isUtf8(reader.bytes.subarray(from, to))) {
    throw new BrokenMessage("a text is not UTF-8");
  }
  return text;
}

/** Begins to read a message within the message: `readTag` ends with it. Gives what `leaveMessage` needs. */
export function enterMessage(reader: WireReader): number {
  const outerEnd = reader.end;
  reader.end = readEnd(reader);
  return outerEnd;
}

export function leaveMessage(reader: WireReader, outerEnd: number): void {
  reader.end = outerEnd;
}

/** Passes over the value of a field that is not known. */
export function skip(reader: WireReader, tag: number): void {
  switch (tag & 7) {
    case wireType.varint:
      return readWords(reader);
    case wireType.fixed64:
      return skipBytes(reader, 8);
    case wireType.lengthDelimited:
      reader.at = readEnd(reader);
      return;
    case wireType.fixed32:
      return skipBytes(reader, 4);
    default:
      throw new BrokenMessage(`a field has the wire type ${tag & 7}`);
  }
}

function skipBytes(reader: WireReader, count: number): void {
  if (reader.at + count > reader.end) throw new BrokenMessage("a field ends after its message");
  reader.at += count;
}
