import {
  code,
  colon,
  countCodePoints,
  failAt,
  hasEscape,
  JsonScanError,
  minus,
  quote,
  skipBase64,
  skipNumber,
  skipSpace,
  skipString,
  skipStringFrom,
  skipWord,
  standsAt,
  startOfData,
  type Cursor,
} from "./bytes.ts";
import { noLandmarks, noteLandmarks, type Landmark, type LandmarkIndex } from "./landmarks.ts";
import { noMedia, type Holding, type MediaPlace, type MediaPlaces, type NamedPlace } from "./media-places.ts";
import { RequestError } from "../request-error.ts";

export { JsonScanError } from "./bytes.ts";

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
  /** Where such strings stand, also those that are too short to count as media by their length. */
  media: Range[];
  /** Strings in places of media that are addresses: what they lead to is not seen. */
  addresses: number;
  /** The landmarks with which a string below the top begins, a key or a value. */
  met: Landmark[];
  /** Values of any kind, which is what reading all of it as objects takes memory for. */
  values: number;
};

/** Bytes from `start` to `end` (exclusive). */
export type Range = { start: number; end: number };

/** What one pass looks for and has found. */
type Findings = Pick<Scan, "mediaBytes" | "media" | "addresses" | "textBytes" | "met" | "values"> & {
  landmarks: LandmarkIndex;
  mostValues: number;
};

/** A body has more values than its reader wants to see here. */
export class ManyValuesError extends Error {}

function failAtValues(most: number): never {
  if (most < maxValues) throw new ManyValuesError(`more than ${most} JSON values`);
  throw new RequestError(`the body must have at most ${maxValues} JSON values`);
}

/** Of a body. An embeddings request may have 300,000 tokens, which are a value each; nothing else comes near that. */
export const maxValues = 500_000;
const maxDepth = 256;
/** Of the top-level object; no API has a hundred. */
const maxFields = 1_000;
const maxNameBytes = 256;
const mediaMinBytes = 2_048;
// Shorter ones hold no picture, however small.
const anyMediaMinBytes = 48;
const plainKey = /^"[ !#-[\]-~]*"$/;

const comma = code(",");
const openBrace = code("{");
const closeBrace = code("}");
const openBracket = code("[");
const closeBracket = code("]");

const dataScheme = Buffer.from("data:");
const commaBytes = Buffer.from(",");
const openBraceBytes = Buffer.from("{");
const closeBraceBytes = Buffer.from("}");

/** What an object has told of itself, and the strings in it that are media if it told enough. */
type ScanResult = { bits: number; isBroken: boolean; media: Range[] };

/** One pass over a body: where it stands, what is open around it, and which places of media those are. */
type Walk = {
  cursor: Cursor;
  findings: Findings;
  open: number[];
  places: (MediaPlace | undefined)[];
  /** The place of the value that comes next. */
  place: MediaPlace | undefined;
  /** Of the open objects that must tell something. */
  told: ScanResult[];
};

const startWalk = (cursor: Cursor, findings: Findings): Walk => ({
  cursor,
  findings,
  open: [],
  places: [],
  place: undefined,
  told: [],
});

function countMedia(findings: Findings, range: Range): void {
  findings.media.push(range);
  const bytes = range.end - range.start;
  if (bytes < mediaMinBytes) return;
  findings.mediaBytes.push(bytes);
  findings.textBytes -= bytes;
}

/** Met where a file or sound stands by its address; no string begins so. */
export const fileAddress: Landmark = Buffer.alloc(0);

function noteAddress(findings: Findings, holds: Holding): void {
  findings.addresses += 1;
  if (holds !== "data-url") findings.met.push(fileAddress);
}

/** Moves past a string where media may stand. Only what is media to its last byte counts as such. */
function skipMedia({ cursor, findings, places, told }: Walk, holds: Holding): void {
  const { bytes } = cursor;
  const start = cursor.at + 1;
  const data = holds === "base64" ? -1 : startOfData(bytes, start);
  const content = data === -1 && (holds === "base64" || holds === "sound") ? start : data;
  if (content === -1) {
    if (!standsAt(bytes, dataScheme, start)) noteAddress(findings, holds);
    return skipString(cursor);
  }
  const end = skipBase64(cursor, content);
  if (bytes[end] !== quote) {
    if (holds === "sound") noteAddress(findings, holds);
    return skipStringFrom(cursor, end);
  }
  cursor.at = end + 1;
  if (end - start < anyMediaMinBytes) return;
  if (places.at(-1)?.needs === undefined) countMedia(findings, { start, end });
  else told.at(-1)?.media.push({ start, end });
}

function skipStringValue(walk: Walk): void {
  const { cursor, findings, place } = walk;
  noteLandmarks(cursor.bytes, cursor.at, findings.landmarks, findings.met);
  if (place?.holds !== undefined && walk.open.at(-1) === openBrace) skipMedia(walk, place.holds);
  else skipString(cursor);
}

/** The place that a key names; notes what makes an object's own word for what it is doubtful: a key in escapes. */
function placeOfKey({ cursor: { bytes, at }, told }: Walk, around: MediaPlace, start: number): MediaPlace | undefined {
  const { below } = around;
  for (let index = 0; index < below.length; index += 1) {
    const { name, place } = below[index] as NamedPlace;
    if (name.length === at - start && standsAt(bytes, name, start)) return place;
  }
  const last = around.needs === undefined ? undefined : told.at(-1);
  if (last && hasEscape(bytes, start, at)) last.isBroken = true;
  return undefined;
}

const toldBytes = 64;

/** Notes what an object tells of itself; told twice, the upstream might believe the other. */
function noteTold({ cursor, told }: Walk, { bit, pattern }: { bit: number; pattern: RegExp }): void {
  const last = told.at(-1);
  if (!last) return;
  skipSpace(cursor);
  const { bytes, at } = cursor;
  if ((last.bits & bit) !== 0 || !pattern.test(bytes.toString("latin1", at, at + toldBytes))) last.isBroken = true;
  last.bits |= bit;
}

function skipKey(walk: Walk): void {
  const { cursor, findings, places } = walk;
  if (skipSpace(cursor) !== quote) failAt(cursor.at);
  const start = cursor.at;
  noteLandmarks(cursor.bytes, start, findings.landmarks, findings.met);
  skipString(cursor);
  const around = places[places.length - 1];
  walk.place = around && placeOfKey(walk, around, start);
  if (skipSpace(cursor) !== colon) failAt(cursor.at);
  cursor.at += 1;
  if (walk.place?.tells) noteTold(walk, walk.place.tells);
}

/** Leaves an object or array. */
function leave({ findings, open, places, told }: Walk): void {
  const place = places.pop();
  if (open.pop() !== openBrace || place?.needs === undefined) return;
  const last = told.pop();
  if (!last || last.isBroken || last.bits !== place.needs) return;
  for (const range of last.media) countMedia(findings, range);
}

/** After a value: moves past closing brackets; true when a comma announces a further value, false at the end. */
function skipToNext(walk: Walk): boolean {
  const { cursor, open } = walk;
  while (open.length > 0) {
    const character = skipSpace(cursor);
    const container = open.at(-1);
    cursor.at += 1;
    if (character === comma) {
      if (container === openBrace) skipKey(walk);
      else walk.place = walk.places.at(-1);
      return true;
    }
    if (character !== (container === openBrace ? closeBrace : closeBracket)) failAt(cursor.at - 1);
    leave(walk);
  }
  return false;
}

/** Enters an object or array; true when it is empty and has been left again. */
function enter(walk: Walk, bracket: number): boolean {
  const { cursor, open, place } = walk;
  if (open.length >= maxDepth) throw new JsonScanError(`deeper than ${maxDepth} levels`);
  cursor.at += 1;
  if (skipSpace(cursor) === (bracket === openBrace ? closeBrace : closeBracket)) {
    cursor.at += 1;
    return true;
  }
  open.push(bracket);
  walk.places.push(place);
  if (bracket !== openBrace) return false;
  if (place?.needs !== undefined) walk.told.push({ bits: 0, isBroken: false, media: [] });
  skipKey(walk);
  return false;
}

/**
 * Moves past one value of any kind and checks its grammar on the way; no recursion, so depth cannot exhaust the stack.
 */
function skipValue(walk: Walk, place: MediaPlace | undefined): void {
  const { cursor, findings } = walk;
  walk.place = place;
  for (;;) {
    const character = skipSpace(cursor);
    findings.values += 1;
    if (findings.values > findings.mostValues) failAtValues(findings.mostValues);
    if (character === quote) skipStringValue(walk);
    else if (character === openBrace || character === openBracket) {
      if (!enter(walk, character)) continue;
    } else if (character === minus || (character >= 48 && character <= 57)) skipNumber(cursor);
    else skipWord(cursor);
    if (!skipToNext(walk)) return;
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
 * RequestError above the limits for its values, its fields and their names, ManyValuesError above a lower limit.
 */
export function scanJson(
  body: Buffer,
  landmarks: LandmarkIndex = noLandmarks,
  mediaPlaces: MediaPlaces = noMedia,
  mostValues = maxValues,
): Scan {
  const cursor: Cursor = { bytes: body, at: 0, words: undefined, offset: 0 };
  const scan: Scan & Findings = {
    fields: new Map(),
    textBytes: body.length,
    mediaBytes: [],
    media: [],
    addresses: 0,
    met: [],
    values: 0,
    landmarks,
    mostValues,
  };
  const walk = startWalk(cursor, scan);
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
    skipValue(walk, mediaPlaces.get(name));
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
  const walk = startWalk(cursor, {
    textBytes: 0,
    mediaBytes: [],
    media: [],
    addresses: 0,
    met: [],
    values: 0,
    landmarks: noLandmarks,
    mostValues: maxValues,
  });
  let count = 0;
  for (let next = comma; next === comma && count < most; cursor.at += 1) {
    skipValue(walk, undefined);
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
