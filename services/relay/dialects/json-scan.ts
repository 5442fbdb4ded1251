/** Where a field of the top-level object stands in the body, in bytes: its key, its value, its end (exclusive). */
export type Field = { keyStart: number; start: number; end: number };

/** What one pass over a JSON body tells without building its values. */
export type Scan = {
  /** The body as latin1, so that one character is one byte. */
  text: string;
  /** Fields of the top-level object. */
  fields: Map<string, Field>;
  /** Bytes that are not inside media (base64) strings. */
  textBytes: number;
  /** Length of each string that holds media, in bytes. */
  mediaBytes: number[];
};

/** A body that is not the JSON object that was expected. */
export class JsonScanError extends Error {}

const maxDepth = 256;
const mediaMinBytes = 2_048;
const mediaStart = /^(?:data:[\w.+-]+\/[\w.+-]+(?:;[\w=.+-]+)*,)?[A-Za-z0-9+/_=-]{256}/;
const plainKey = /^"[ !#-[\]-~]*"$/;
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const code = (character: string): number => character.charCodeAt(0);
const quote = code('"');
const backslash = code("\\");
const comma = code(",");
const colon = code(":");
const openBrace = code("{");
const closeBrace = code("}");
const openBracket = code("[");
const closeBracket = code("]");

const commaBytes = Buffer.from(",");
const openBraceBytes = Buffer.from("{");
const closeBraceBytes = Buffer.from("}");

type Cursor = { text: string; at: number };

function isSpace(character: number): boolean {
  return character === 32 || character === 10 || character === 13 || character === 9;
}

function skipSpace(cursor: Cursor): void {
  while (isSpace(cursor.text.charCodeAt(cursor.at))) cursor.at += 1;
}

function fail(cursor: Cursor): never {
  throw new JsonScanError(`not valid JSON at byte ${cursor.at}`);
}

/**
 * Moves past a string whose opening quote is at the cursor; jumps from quote to quote instead of looking at each byte.
 */
function skipString(cursor: Cursor): void {
  const { text } = cursor;
  let end = text.indexOf('"', cursor.at + 1);
  while (end !== -1) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === backslash) slashes += 1;
    if (slashes % 2 === 0) {
      cursor.at = end + 1;
      return;
    }
    end = text.indexOf('"', end + 1);
  }
  fail(cursor);
}

const shortString = 64;

/** Whether a short string has nothing in it that needs a closer look: no escape and no control character. */
function isPlain(text: string, start: number, end: number): boolean {
  for (let at = start + 1; at < end - 1; at += 1) {
    const character = text.charCodeAt(at);
    if (character === backslash || character < 32) return false;
  }
  return true;
}

/** Checks escapes and control characters of a string; the engine's own parser is the fastest that there is. */
function checkString(cursor: Cursor, start: number): void {
  const { text, at: end } = cursor;
  if (end - start < shortString && isPlain(text, start, end)) return;
  try {
    JSON.parse(text.slice(start, end));
  } catch {
    fail({ text, at: start });
  }
}

function skipNumber(cursor: Cursor): void {
  numberPattern.lastIndex = cursor.at;
  if (!numberPattern.test(cursor.text)) fail(cursor);
  cursor.at = numberPattern.lastIndex;
}

function skipWord(cursor: Cursor): void {
  for (const word of ["true", "false", "null"]) {
    if (cursor.text.startsWith(word, cursor.at)) {
      cursor.at += word.length;
      return;
    }
  }
  fail(cursor);
}

type MediaCount = Pick<Scan, "mediaBytes" | "textBytes">;

function skipStringValue(cursor: Cursor, count: MediaCount): void {
  const start = cursor.at + 1;
  skipString(cursor);
  const length = cursor.at - 1 - start;
  if (length >= mediaMinBytes && mediaStart.test(cursor.text.slice(start, start + 512))) {
    count.mediaBytes.push(length);
    count.textBytes -= length;
    // Millions of bytes that are known by their beginning: what is wrong in them, the upstream will say.
    return;
  }
  checkString(cursor, start - 1);
}

function skipKey(cursor: Cursor): void {
  skipSpace(cursor);
  if (cursor.text.charCodeAt(cursor.at) !== quote) fail(cursor);
  const start = cursor.at;
  skipString(cursor);
  checkString(cursor, start);
  skipSpace(cursor);
  if (cursor.text.charCodeAt(cursor.at) !== colon) fail(cursor);
  cursor.at += 1;
}

/** After a value: moves past closing brackets; true when a comma announces a further value, false at the end. */
function skipToNext(cursor: Cursor, open: number[]): boolean {
  while (open.length > 0) {
    skipSpace(cursor);
    const character = cursor.text.charCodeAt(cursor.at);
    const container = open.at(-1);
    cursor.at += 1;
    if (character === comma) {
      if (container === openBrace) skipKey(cursor);
      return true;
    }
    if (character !== (container === openBrace ? closeBrace : closeBracket)) fail(cursor);
    open.pop();
  }
  return false;
}

/** Enters an object or array; true when it is empty and has been left again. */
function enter(cursor: Cursor, open: number[], bracket: number): boolean {
  if (open.length >= maxDepth) throw new JsonScanError(`deeper than ${maxDepth} levels`);
  cursor.at += 1;
  skipSpace(cursor);
  if (cursor.text.charCodeAt(cursor.at) === (bracket === openBrace ? closeBrace : closeBracket)) {
    cursor.at += 1;
    return true;
  }
  open.push(bracket);
  if (bracket === openBrace) skipKey(cursor);
  return false;
}

/**
 * Moves past one value of any kind and checks its grammar on the way; no recursion, so depth cannot exhaust the stack.
 */
function skipValue(cursor: Cursor, count: MediaCount): void {
  const open: number[] = [];
  for (;;) {
    skipSpace(cursor);
    const character = cursor.text.charCodeAt(cursor.at);
    if (character === quote) skipStringValue(cursor, count);
    else if (character === openBrace || character === openBracket) {
      if (!enter(cursor, open, character)) continue;
    } else if (character === 45 || (character >= 48 && character <= 57)) skipNumber(cursor);
    else skipWord(cursor);
    if (!skipToNext(cursor, open)) return;
  }
}

function decodeKey(cursor: Cursor): string {
  const start = cursor.at;
  skipString(cursor);
  const raw = cursor.text.slice(start, cursor.at);
  if (plainKey.test(raw)) return raw.slice(1, -1);
  try {
    return JSON.parse(Buffer.from(raw, "latin1").toString()) as string;
  } catch {
    return fail(cursor);
  }
}

/**
 * Reads the fields of a JSON object without building its values: a relayed body is forwarded as it came, so only the
 * few fields that decide and meter are worth decoding. A field that stands twice is refused, because the upstream
 * might obey the other one. Throws JsonScanError for anything but one well-formed object, at most 256 levels deep.
 */
export function scanJson(body: Buffer): Scan {
  const text = body.toString("latin1");
  const cursor: Cursor = { text, at: 0 };
  const scan: Scan = { text, fields: new Map(), textBytes: text.length, mediaBytes: [] };
  skipSpace(cursor);
  if (text.charCodeAt(cursor.at) !== openBrace) fail(cursor);
  cursor.at += 1;
  skipSpace(cursor);
  const isEmpty = text.charCodeAt(cursor.at) === closeBrace;
  for (let next = isEmpty ? closeBrace : comma; next !== closeBrace; cursor.at += 1) {
    skipSpace(cursor);
    if (text.charCodeAt(cursor.at) !== quote) fail(cursor);
    const keyStart = cursor.at;
    const name = decodeKey(cursor);
    skipSpace(cursor);
    if (text.charCodeAt(cursor.at) !== colon) fail(cursor);
    cursor.at += 1;
    skipSpace(cursor);
    const start = cursor.at;
    skipValue(cursor, scan);
    if (scan.fields.has(name)) throw new JsonScanError(`field ${name} stands twice`);
    scan.fields.set(name, { keyStart, start, end: cursor.at });
    skipSpace(cursor);
    next = text.charCodeAt(cursor.at);
    if (next !== comma && next !== closeBrace) fail(cursor);
  }
  if (isEmpty) cursor.at += 1;
  skipSpace(cursor);
  if (cursor.at !== text.length) fail(cursor);
  return scan;
}

/** Decodes one top-level field; undefined when it is absent. Throws JsonScanError when it is not valid after all. */
export function readField(body: Buffer, scan: Scan, name: string): unknown {
  const span = scan.fields.get(name);
  if (!span) return undefined;
  try {
    return JSON.parse(body.toString("utf8", span.start, span.end));
  } catch {
    throw new JsonScanError(`field ${name} is not valid JSON`);
  }
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
