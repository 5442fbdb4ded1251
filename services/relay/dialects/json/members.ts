import { code, colon, minus, quote, skipNumber, skipSpace, skipString, skipWord, type Cursor } from "./bytes.ts";

// Goes through values of a body whose grammar was checked, without building them.

const comma = code(",");
const openBrace = code("{");
const closeBrace = code("}");
const openBracket = code("[");
const closeBracket = code("]");

const isNumber = (byte: number): boolean => byte === minus || (byte >= code("0") && byte <= code("9"));

export const cursorOf = (bytes: Buffer): Cursor => ({ bytes, at: 0, words: undefined, offset: 0 });

/** Moves past one value. */
export function skipValue(cursor: Cursor): void {
  let depth = 0;
  do {
    const character = skipSpace(cursor);
    if (character === quote) skipString(cursor);
    else if (character === openBrace || character === openBracket) {
      depth += 1;
      cursor.at += 1;
    } else if (character === closeBrace || character === closeBracket) {
      depth -= 1;
      cursor.at += 1;
    } else if (character === comma || character === colon) cursor.at += 1;
    else if (isNumber(character)) skipNumber(cursor);
    else skipWord(cursor);
  } while (depth > 0);
}

/** Reads a string; undefined, and moved past, when the value is none or has more than `maxBytes`. */
export function takeString(cursor: Cursor, maxBytes: number): string | undefined {
  if (skipSpace(cursor) !== quote) {
    skipValue(cursor);
    return undefined;
  }
  const start = cursor.at;
  skipString(cursor);
  if (cursor.at - start > maxBytes) return undefined;
  return JSON.parse(cursor.bytes.toString("utf8", start, cursor.at)) as string;
}

/** Goes through what stands in an object or array, of which `take` moves past one at a time; past anything else. */
function enter(cursor: Cursor, open: number, close: number, take: () => void): void {
  if (skipSpace(cursor) !== open) return skipValue(cursor);
  cursor.at += 1;
  let isMore = skipSpace(cursor) !== close;
  while (isMore) {
    take();
    isMore = skipSpace(cursor) === comma;
    if (isMore) cursor.at += 1;
  }
  cursor.at += 1;
}

export const isObject = (cursor: Cursor): boolean => skipSpace(cursor) === openBrace;
export const isArray = (cursor: Cursor): boolean => skipSpace(cursor) === openBracket;
export const isString = (cursor: Cursor): boolean => skipSpace(cursor) === quote;

export const eachItem = (cursor: Cursor, take: () => void): void => enter(cursor, openBracket, closeBracket, take);

// No field that means anything has a longer name.
const maxNameBytes = 100;

/** `take` gets the name of a field, undefined for one that is longer than any, and where its key begins. */
export const eachField = (cursor: Cursor, take: (name: string | undefined, keyStart: number) => void): void =>
  enter(cursor, openBrace, closeBrace, () => {
    skipSpace(cursor);
    const keyStart = cursor.at;
    const name = takeString(cursor, maxNameBytes);
    skipSpace(cursor);
    // The colon.
    cursor.at += 1;
    take(name, keyStart);
  });
