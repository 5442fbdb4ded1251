/** A body that is not the JSON object that was expected. */
export class JsonScanError extends Error {}

/** Where a scan stands in a body. */
export type Cursor = {
  bytes: Buffer;
  at: number;
  /** The memory in which the body lies, in words of four bytes; made for the first long string. */
  words: Int32Array | undefined;
  /** The byte of that memory at which the body begins; known when its words are. */
  offset: number;
};

/** The byte of an ASCII character. */
export const code = (character: string): number => character.charCodeAt(0);
export const quote = code('"');
export const backslash = code("\\");
const slash = code("/");
const zero = code("0");
const nine = code("9");
export const minus = code("-");
const plus = code("+");
const point = code(".");
const smallE = code("e");
const largeE = code("E");
export const colon = code(":");

/** A table of all bytes, with 1 for those whose character the pattern takes. */
const tableOf = (pattern: RegExp): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => (pattern.test(String.fromCharCode(byte)) ? 1 : 0));

const plain = tableOf(/[ !#-[\]-\u00ff]/);
const base64 = tableOf(/[A-Za-z0-9+/_=-]/);

/** For each two bytes as a number, whether both are of the alphabet. */
const base64Pairs = Uint8Array.from({ length: 65_536 }, (_, pair) =>
  Math.min(base64[pair & 0xff] as number, base64[pair >> 8] as number),
);

// What is no text to the provider that reads it. PHP writes a slash with a backslash before it.
const dataStart =
  /^data:(?:image\\?\/(?!svg)[\w.+-]+|(?:audio|video)\\?\/[\w.+-]+|application\\?\/pdf)(?:;[\w=.+-]+)*?;base64,/i;
const dataStartBytes = 128;

/** Refuses what stands at a place. */
export function failAt(at: number): never {
  throw new JsonScanError(`not valid JSON at byte ${at}`);
}

/** Moves past white space and gives the byte behind it; -1 at the end. */
export function skipSpace(cursor: Cursor): number {
  const { bytes } = cursor;
  let { at } = cursor;
  while (at < bytes.length) {
    const byte = bytes[at] as number;
    if (byte > 32 || (byte !== 32 && byte !== 10 && byte !== 13 && byte !== 9)) {
      cursor.at = at;
      return byte;
    }
    at += 1;
  }
  cursor.at = at;
  return -1;
}

const simpleEscapes = tableOf(/["\\/bfnrt]/);
const hexDigits = tableOf(/[0-9A-Fa-f]/);
const smallU = code("u");
const longestEscape = 6;

/** The place behind an escape whose backslash stands at a place. */
function skipEscape(bytes: Buffer, at: number): number {
  const kind = bytes[at + 1] as number;
  if (simpleEscapes[kind] === 1) return at + 2;
  const end = at + longestEscape;
  let stop = at + 2;
  if (kind === smallU) while (stop < end && hexDigits[bytes[stop] as number] === 1) stop += 1;
  if (stop !== end) failAt(at);
  return end;
}

// A run without escapes is looked at in words from here on; most names and many lines end before.
const nearBytes = 8;

/** Moves past a string whose opening quote is at the cursor, and checks its escapes and control characters. */
export function skipString(cursor: Cursor): void {
  skipStringFrom(cursor, cursor.at + 1);
}

/** The same for the rest of a string, which goes on at a place. */
export function skipStringFrom(cursor: Cursor, start: number): void {
  const { bytes } = cursor;
  let at = start;
  for (;;) {
    const stop = Math.min(at + nearBytes, bytes.length);
    while (at < stop && plain[bytes[at] as number] === 1) at += 1;
    if (at === stop) at = skipPlainWords(cursor, at);
    if (bytes[at] === quote) break;
    if (bytes[at] !== backslash) failAt(at);
    while (bytes[at] === backslash) at = skipEscape(bytes, at);
  }
  cursor.at = at + 1;
}

const ones = 0x01010101;
const secondBits = 0x02020202;
const aboveTurnedQuote = 0x21212121;
const backslashes = 0x5c5c5c5c;
const highBits = 0x80808080;

/**
 * Marks of the bytes of a word that may not go on in a string: quotes, backslashes, control characters; the lowest
 * mark is right. Taking the least that is allowed from each byte sets the high bit of those that are below; with its
 * second bit turned, the quote stands right above the control characters. Bytes from 128 on, of which UTF-8 has many,
 * are allowed.
 */
function marksOf(word: number): number {
  return (((word ^ secondBits) - aboveTurnedQuote) | ((word ^ backslashes) - ones)) & ~word;
}

function makeWords(cursor: Cursor): Int32Array {
  const { buffer, byteOffset } = cursor.bytes;
  cursor.offset = byteOffset;
  return (cursor.words = new Int32Array(buffer, 0, buffer.byteLength >> 2));
}

/** The place of the next quote, backslash or control character, or the end of the body. */
function skipPlainWords(cursor: Cursor, start: number): number {
  const { bytes } = cursor;
  const words = cursor.words ?? makeWords(cursor);
  const { offset } = cursor;
  const end = (offset + bytes.length) >> 2;
  const first = offset + start;
  let at = first >> 2;
  // What stands in the first word before the start is turned into bytes that may stand in a string.
  let marks = at < end ? marksOf((words[at] as number) | ((1 << ((first & 3) << 3)) - 1)) & highBits : 0;
  if (marks === 0) {
    for (at += 1; at <= end - 4; at += 4) {
      const a = marksOf(words[at] as number);
      const b = marksOf(words[at + 1] as number);
      const c = marksOf(words[at + 2] as number);
      const d = marksOf(words[at + 3] as number);
      if (((a | b | c | d) & highBits) !== 0) break;
    }
    for (; at < end; at += 1) {
      marks = marksOf(words[at] as number) & highBits;
      if (marks !== 0) break;
    }
  }
  if (marks !== 0) return (at << 2) + ((31 - Math.clz32(marks & -marks)) >> 3) - offset;
  let rest = Math.max(Math.min(at, end) * 4 - offset, start);
  while (rest < bytes.length && plain[bytes[rest] as number] === 1) rest += 1;
  return rest;
}

const halfStart = tableOf(/[dD]/);
const highHalf = tableOf(/[89abAB]/);
const lowHalf = tableOf(/[c-fC-F]/);

/** Whether an escape at a place spells the half of a surrogate pair that a table tells by its second digit. */
const spells = (bytes: Buffer, at: number, half: Uint8Array): boolean =>
  bytes[at] === backslash &&
  bytes[at + 1] === smallU &&
  halfStart[bytes[at + 2] as number] === 1 &&
  half[bytes[at + 3] as number] === 1;

/** Bytes of the character at a place; 1 for a byte that is no UTF-8 (RFC 3629, Syntax of UTF-8 Byte Sequences). */
function characterBytes(bytes: Buffer, at: number): number {
  const lead = bytes[at] as number;
  if (lead < 0xc2 || lead > 0xf4) return 1;
  const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  const least = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const most = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  const second = bytes[at + 1] as number;
  if (second < least || second > most) return 1;
  for (let next = 2; next < length; next += 1) if (((bytes[at + next] as number) & 0xc0) !== 0x80) return 1;
  return length;
}

/**
 * Code points of a text between two places that are those of a string that was scanned, as a decoder would give them:
 * two escapes may be one. A byte that is no UTF-8 counts as one, which is no less than a decoder makes of it.
 */
export function countCodePoints(bytes: Buffer, start: number, end: number): number {
  let count = 0;
  for (let at = start; at < end; count += 1) {
    const byte = bytes[at] as number;
    if (byte === backslash) {
      const isPair = spells(bytes, at, highHalf) && spells(bytes, at + longestEscape, lowHalf);
      at += isPair ? 2 * longestEscape : bytes[at + 1] === smallU ? longestEscape : 2;
    } else at += byte < 0x80 ? 1 : characterBytes(bytes, at);
  }
  return count;
}

/** Where the content begins in an address that holds a picture, sound, film or PDF; -1 for any other string. */
export function startOfData(bytes: Buffer, start: number): number {
  const found = dataStart.exec(bytes.toString("latin1", start, start + dataStartBytes));
  return found ? start + found[0].length : -1;
}

/** 1 for a word whose bytes are all of the alphabet. */
const isBase64 = (word = 0): number => (base64Pairs[word & 0xffff] as number) & (base64Pairs[word >>> 16] as number);

/** The place of the next byte that is not of the alphabet, or a few before it; words of four bytes at once. */
function skipBase64Words(cursor: Cursor, start: number): number {
  const { bytes } = cursor;
  const words = cursor.words ?? makeWords(cursor);
  const { offset } = cursor;
  let at = start;
  while (((offset + at) & 3) !== 0) {
    if (base64[bytes[at] as number] !== 1) return at;
    at += 1;
  }
  const end = (offset + bytes.length) >> 2;
  let word = (offset + at) >> 2;
  for (; word <= end - 4; word += 4) {
    if (
      (isBase64(words[word]) & isBase64(words[word + 1]) & isBase64(words[word + 2]) & isBase64(words[word + 3])) ===
      0
    )
      break;
  }
  return word * 4 - offset;
}

/** The place behind base64, of either alphabet, whose slashes may be escaped. */
export function skipBase64(cursor: Cursor, start: number): number {
  const { bytes } = cursor;
  for (let at = start; ; at += 2) {
    at = skipBase64Words(cursor, at);
    while (base64[bytes[at] as number] === 1) at += 1;
    if (bytes[at] !== backslash || bytes[at + 1] !== slash) return at;
  }
}

/** Whether an escape stands between two places. */
export function hasEscape(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) if (bytes[at] === backslash) return true;
  return false;
}

function skipDigits(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && (bytes[at] as number) >= zero && (bytes[at] as number) <= nine) at += 1;
  if (at === from) failAt(from);
  return at;
}

/** Moves past a number. */
export function skipNumber(cursor: Cursor): void {
  const { bytes } = cursor;
  let { at } = cursor;
  if (bytes[at] === minus) at += 1;
  at = bytes[at] === zero ? at + 1 : skipDigits(bytes, at);
  if (bytes[at] === point) at = skipDigits(bytes, at + 1);
  if (bytes[at] === smallE || bytes[at] === largeE) {
    const sign = bytes[at + 1];
    at = skipDigits(bytes, sign === plus || sign === minus ? at + 2 : at + 1);
  }
  cursor.at = at;
}

const words = ["true", "false", "null"].map((word) => Buffer.from(word));

/** Whether `word` stands at a place. */
export function standsAt(bytes: Buffer, word: Buffer, at: number): boolean {
  for (let index = 0; index < word.length; index += 1) if (bytes[at + index] !== word[index]) return false;
  return true;
}

/** Moves past true, false or null. */
export function skipWord(cursor: Cursor): void {
  const word = words.find((candidate) => standsAt(cursor.bytes, candidate, cursor.at));
  if (!word) failAt(cursor.at);
  cursor.at += word.length;
}
