import {
  beginsMedia,
  code,
  colon,
  countCodePoints,
  failAt,
  findStringEnd,
  JsonScanError,
  minus,
  quote,
  skipNumber,
  skipSpace,
  skipString,
  skipWord,
  standsAt,
  type Cursor,
} from "./json-bytes.ts";
import { RequestError } from "./request-error.ts";

export { JsonScanError } from "./json-bytes.ts";

/** Where a field of the top-level object stands in the body, in bytes: its key, its value, its end (exclusive). */
export type Field = { keyStart: number; start: number; end: number };

/** What one pass over a JSON body tells without building its values. */
export type Scan = {
  /** Fields of the top-level object. */
  fields: Map<string, Field>;
  /** Bytes that are not inside media (base64) strings. */
  textBytes: number;
  /** Length of each string that holds media, in bytes. */
  mediaBytes: number[];
  /** The landmarks with which a string below the top begins, a key or a value. */
  met: Landmark[];
  /** Values of any kind, which is what reading all of it as objects takes memory for. */
  values: number;
};

/** The beginning of a string, with its quote, that is looked for while all is read: alone it would take as long. */
export type Landmark = Buffer;

/** What one pass looks for and has found. */
type Findings = Pick<Scan, "mediaBytes" | "textBytes" | "met" | "values"> & { landmarks: readonly Landmark[] };

/** Of a body. An embeddings request may have 300,000 tokens, which are a value each; nothing else comes near that. */
export const maxValues = 500_000;
const maxDepth = 256;
/** Of the top-level object; no API has a hundred. */
const maxFields = 1_000;
const maxNameBytes = 256;
const mediaMinBytes = 2_048;
const plainKey = /^"[ !#-[\]-~]*"$/;

const comma = code(",");
const openBrace = code("{");
const closeBrace = code("}");
const openBracket = code("[");
const closeBracket = code("]");

const commaBytes = Buffer.from(",");
const openBraceBytes = Buffer.from("{");
const closeBraceBytes = Buffer.from("}");

function noteLandmarks({ bytes, at }: Cursor, { landmarks, met }: Findings): void {
  for (const landmark of landmarks) if (standsAt(bytes, landmark, at) && !met.includes(landmark)) met.push(landmark);
}

function skipStringValue(cursor: Cursor, findings: Findings): void {
  const { bytes } = cursor;
  noteLandmarks(cursor, findings);
  const start = cursor.at + 1;
  if (beginsMedia(bytes, start)) {
    const end = findStringEnd(bytes, start);
    if (end - start >= mediaMinBytes) {
      findings.mediaBytes.push(end - start);
      findings.textBytes -= end - start;
      // Millions of bytes that are known by their beginning: what is wrong in them, the upstream will say.
      cursor.at = end + 1;
      return;
    }
  }
  skipString(cursor);
}

function skipKey(cursor: Cursor, findings: Findings): void {
  if (skipSpace(cursor) !== quote) failAt(cursor.at);
  noteLandmarks(cursor, findings);
  skipString(cursor);
  if (skipSpace(cursor) !== colon) failAt(cursor.at);
  cursor.at += 1;
}

/** After a value: moves past closing brackets; true when a comma announces a further value, false at the end. */
function skipToNext(cursor: Cursor, open: number[], findings: Findings): boolean {
  while (open.length > 0) {
    const character = skipSpace(cursor);
    const container = open.at(-1);
    cursor.at += 1;
    if (character === comma) {
      if (container === openBrace) skipKey(cursor, findings);
      return true;
    }
    if (character !== (container === openBrace ? closeBrace : closeBracket)) failAt(cursor.at - 1);
    open.pop();
  }
  return false;
}

/** Enters an object or array; true when it is empty and has been left again. */
function enter(cursor: Cursor, open: number[], bracket: number, findings: Findings): boolean {
  if (open.length >= maxDepth) throw new JsonScanError(`deeper than ${maxDepth} levels`);
  cursor.at += 1;
  if (skipSpace(cursor) === (bracket === openBrace ? closeBrace : closeBracket)) {
    cursor.at += 1;
    return true;
  }
  open.push(bracket);
  if (bracket === openBrace) skipKey(cursor, findings);
  return false;
}

/**
 * Moves past one value of any kind and checks its grammar on the way; no recursion, so depth cannot exhaust the stack.
 */
function skipValue(cursor: Cursor, findings: Findings): void {
  const open: number[] = [];
  for (;;) {
    const character = skipSpace(cursor);
    findings.values += 1;
    if (findings.values > maxValues) throw new RequestError(`the body must have at most ${maxValues} JSON values`);
    if (character === quote) skipStringValue(cursor, findings);
    else if (character === openBrace || character === openBracket) {
      if (!enter(cursor, open, character, findings)) continue;
    } else if (character === minus || (character >= 48 && character <= 57)) skipNumber(cursor);
    else skipWord(cursor);
    if (!skipToNext(cursor, open, findings)) return;
  }
}

function decodeKey(cursor: Cursor): string {
  const start = cursor.at;
  skipString(cursor);
  if (cursor.at - start > maxNameBytes)
    throw new RequestError(`names of fields must have at most ${maxNameBytes} bytes`);
  const raw = cursor.bytes.toString("latin1", start, cursor.at);
  if (plainKey.test(raw)) return raw.slice(1, -1);
  return JSON.parse(cursor.bytes.toString("utf8", start, cursor.at)) as string;
}

/**
 * Reads the fields of a JSON object without building its values: a relayed body is forwarded as it came, so only the
 * few fields that decide and meter are worth decoding. A field that stands twice is refused, because the upstream
 * might obey the other one. Throws JsonScanError for anything but one well-formed object, at most 256 levels deep, and
 * RequestError above the limits for its values, its fields and their names.
 */
export function scanJson(body: Buffer, landmarks: readonly Landmark[] = []): Scan {
  const cursor: Cursor = { bytes: body, at: 0, words: undefined, offset: 0 };
  const scan: Scan & Findings = {
    fields: new Map(),
    textBytes: body.length,
    mediaBytes: [],
    met: [],
    values: 0,
    landmarks,
  };
  if (skipSpace(cursor) !== openBrace) failAt(cursor.at);
  cursor.at += 1;
  const isEmpty = skipSpace(cursor) === closeBrace;
  for (let next = isEmpty ? closeBrace : comma; next !== closeBrace; cursor.at += 1) {
    if (skipSpace(cursor) !== quote) failAt(cursor.at);
    const keyStart = cursor.at;
    const name = decodeKey(cursor);
    if (skipSpace(cursor) !== colon) failAt(cursor.at);
    cursor.at += 1;
    skipSpace(cursor);
    const start = cursor.at;
    skipValue(cursor, scan);
    if (scan.fields.has(name)) throw new JsonScanError(`field ${name} stands twice`);
    if (scan.fields.size === maxFields) throw new RequestError(`the body must have at most ${maxFields} fields`);
    scan.fields.set(name, { keyStart, start, end: cursor.at });
    next = skipSpace(cursor);
    if (next !== comma && next !== closeBrace) failAt(cursor.at);
  }
  if (isEmpty) cursor.at += 1;
  skipSpace(cursor);
  if (cursor.at !== body.length) failAt(cursor.at);
  return scan;
}

function parseField(body: Buffer, { start, end }: Field, name: string): unknown {
  try {
    return JSON.parse(body.toString("utf8", start, end));
  } catch {
    throw new JsonScanError(`field ${name} is not valid JSON`);
  }
}

/**
 * Decodes one top-level field, of whatever kind; undefined when it is absent. Throws JsonScanError when it is not valid
 * after all, RequestError when it has more than `maxBytes`.
 */
export function readField(body: Buffer, scan: Scan, name: string, maxBytes = Infinity): unknown {
  const field = scan.fields.get(name);
  if (!field) return undefined;
  if (field.end - field.start > maxBytes) throw new RequestError(`field ${name} must have at most ${maxBytes} bytes`);
  return parseField(body, field, name);
}

/**
 * Decodes a top-level number, word or short text; undefined when it is absent. Throws RequestError for what is longer,
 * and for lists and objects, without looking at more than their first byte: a caller may make them as large as a body.
 */
export function readScalar(body: Buffer, scan: Scan, name: string, maxBytes: number): unknown {
  const field = scan.fields.get(name);
  if (!field) return undefined;
  const first = body[field.start];
  if (first === openBrace || first === openBracket) {
    throw new RequestError(`field ${name} must not be an object or an array`);
  }
  return readField(body, scan, name, maxBytes);
}

/** Code points of a top-level text, which is not decoded for it; undefined when the field is none. */
export function countCharacters(body: Buffer, scan: Scan, name: string): number | undefined {
  const field = scan.fields.get(name);
  if (!field || body[field.start] !== quote) return undefined;
  return countCodePoints(body, field.start + 1, field.end - 1);
}

/** What a list at the top holds: how many items, counted up to `most`, and the first byte of the first one. */
export type Items = { count: number; first: number | undefined };

/** Looks at a top-level list without decoding it; undefined when the field is none. */
export function countItems(body: Buffer, scan: Scan, name: string, most: number): Items | undefined {
  const field = scan.fields.get(name);
  if (!field || body[field.start] !== openBracket) return undefined;
  const cursor: Cursor = { bytes: body, at: field.start + 1, words: undefined, offset: 0 };
  const first = skipSpace(cursor);
  if (first === closeBracket) return { count: 0, first: undefined };
  const unused: Findings = { textBytes: 0, mediaBytes: [], met: [], values: 0, landmarks: [] };
  let count = 0;
  for (let next = comma; next === comma && count < most; cursor.at += 1) {
    skipValue(cursor, unused);
    count += 1;
    next = skipSpace(cursor);
  }
  return { count, first };
}

/** Changes of the top-level fields of a body; texts are JSON. */
export type Changes = { replace?: Record<string, string>; add?: Record<string, string>; remove?: readonly string[] };

/**
 * Applies changes to the top-level fields. Fields that stay keep their bytes and their order; a body without a change
 * is returned as it is.
 */
export function rewriteFields(body: Buffer, scan: Scan, { replace = {}, add = {}, remove = [] }: Changes): Buffer {
  const pieces: Buffer[] = [];
  let isChanged = false;
  for (const [name, field] of scan.fields) {
    const replacement = Object.hasOwn(replace, name) ? replace[name] : undefined;
    isChanged ||= remove.includes(name) || replacement !== undefined;
    if (remove.includes(name)) continue;
    if (replacement === undefined) pieces.push(body.subarray(field.keyStart, field.end));
    else pieces.push(body.subarray(field.keyStart, field.start), Buffer.from(replacement));
    pieces.push(commaBytes);
  }
  for (const [name, value] of Object.entries(add)) {
    pieces.push(Buffer.from(`${JSON.stringify(name)}:${value}`), commaBytes);
    isChanged = true;
  }
  if (!isChanged) return body;
  pieces.pop();
  return Buffer.concat([openBraceBytes, ...pieces, closeBraceBytes]);
}
