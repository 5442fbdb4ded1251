import {
  countCharacters,
  countItems,
  readField,
  readScalar,
  rewriteFields,
  scanJson,
  type Changes,
  type Items,
  type Range,
  type Scan,
} from "./scan.ts";
import type { MediaPlaces } from "./media-places.ts";
import { weighJson } from "./weigh.ts";
import { indexLandmarks, type Landmark } from "./landmarks.ts";
import { ourNote } from "../opaque.ts";
import { stateLandmarks } from "../state-names.ts";
import { RequestError } from "../request-error.ts";

/** A request body whose grammar was checked, in whatever encoding it came. Its methods do not stand alone. */
export type RequestBody = {
  bytes: Buffer;
  contentType: string;
  /** The fields in their order; one of a form may stand twice. */
  names(): Iterable<string>;
  /** Whether a field is there and not null. */
  has(name: string): boolean;
  /** Whether a field is a JSON array; looked at, not decoded. */
  isArray(name: string): boolean;
  /**
   * A number, a word or a short text; undefined when it is absent. Throws RequestError for a list, an object and what
   * is longer than `maxScalarBytes`, without looking at it.
   */
  read(name: string): unknown;
  /** A text of at most so many characters; undefined when it is absent. Throws RequestError for anything else. */
  readText(name: string, maxCharacters: number): string | undefined;
  /** All of a field's value, of whatever kind and size; undefined when it is absent. Takes memory out of proportion. */
  readWhole(name: string, maxBytes?: number): unknown;
  /** Characters of a text; undefined when the field is none. */
  countCharacters(name: string): number | undefined;
  /** Items of a list, up to `most`; undefined when the field is none. */
  countItems(name: string, most: number): Items | undefined;
  /** A field's bytes as they came; undefined when it is absent, or has no bytes of its own. */
  slice(name: string): Buffer | undefined;
  /** The body with other fields; what stays keeps its bytes and its order. */
  rewrite(changes: Changes): Buffer;
  /** Whether a string in it begins with one of `landmarks`; nearly never so, and known without another look. */
  mayHold(landmark: Landmark): boolean;
  /** Whether a letter stands in it as an escape, as no writer of JSON puts one: a key may hide so. */
  hasEscapedLetters(): boolean;
  /** Bytes of text, from which input tokens are estimated. */
  textBytes: number;
  /** Bytes of each picture, sound or file in it. */
  mediaBytes: readonly number[];
  /** Where pictures, sounds and files stand in it, in base64 and as far as these are known, in their order. */
  media: readonly Range[];
  /** Places of media in which an address stands. */
  addresses: number;
  /** Tokens of its text, about, counted until `most` are reached. */
  textTokens(most: number): number;
  /** How many JSON values it has: 0 where it is no JSON. */
  values: number;
};

/** More than any number or name of a choice needs. */
export const maxScalarBytes = 64;

// A character beyond the first plane as two escapes.
const maxCharacterBytes = 12;

function hasAtMost(text: string, characters: number): boolean {
  if (text.length <= characters) return true;
  let left = characters;
  for (const _ of text) if ((left -= 1) < 0) return false;
  return true;
}

/** Throws RequestError for what is no text of at most `maxCharacters`. Long ones are not looked at. */
export function checkedText(name: string, bytes: number, maxCharacters: number, read: () => unknown): string {
  const tooLong = (): RequestError => new RequestError(`field ${name} must have at most ${maxCharacters} characters`);
  if (bytes > maxCharacters * maxCharacterBytes + 2) throw tooLong();
  const text = read();
  if (typeof text !== "string") throw new RequestError(`field ${name} must be a string`);
  if (!hasAtMost(text, maxCharacters)) throw tooLong();
  return text;
}

const openBracket = "[".charCodeAt(0);
const quoteStart = '"'.charCodeAt(0);
// No other value begins like null.
const nullStart = "n".charCodeAt(0);

/** What dialects look for in all of a body: state of other providers' models that came back with it. */
export const landmarks = { extraContent: Buffer.from('"extra_content"'), note: Buffer.from(`"${ourNote}`) };

/** Whether state of other providers' models must be taken out of a body, for which all of it is read. */
export const isHoldingState = (body: Pick<RequestBody, "mayHold">): boolean =>
  Object.values(landmarks).some((landmark) => body.mayHold(landmark));

/** Names of content that a request does not bring along: keys, and words that some types are. */
export const namesOfUnseen = {
  keys: ["file_id", "file_url", "container_upload", "video_url", "input_video", "audio_url", "document_url"].map(
    (key) => Buffer.from(`"${key}"`),
  ),
  types: ["item_reference", "url", "video"].map((type) => Buffer.from(`"${type}"`)),
  tools: ["mcp", "web_fetch"].map((type) => Buffer.from(`"${type}`)),
};
/** By what a caller asks for a part of the input to be kept in a cache, and for an hour instead of five minutes. */
export const cacheLandmarks = { mark: Buffer.from('"cache_control"'), hour: Buffer.from('"1h"') };
const landmarkIndex = indexLandmarks([
  ...Object.values(landmarks),
  ...Object.values(cacheLandmarks),
  ...namesOfUnseen.keys,
  ...namesOfUnseen.types,
  ...namesOfUnseen.tools,
  ...stateLandmarks,
]);
const escapeStart = Buffer.from("\\u00");
const escapedLetter = /\\u00[4-7]/;

/** One object with methods: as six closures it was more than all else that is read of a small body. */
class JsonBody implements RequestBody {
  readonly contentType = "application/json";
  readonly bytes: Buffer;
  private readonly scan: Scan;
  private weight: number | undefined;
  private hasEscapes: boolean | undefined;

  constructor(bytes: Buffer, mediaPlaces: MediaPlaces | undefined, mostValues: number | undefined) {
    this.bytes = bytes;
    this.scan = scanJson(bytes, landmarkIndex, mediaPlaces, mostValues);
  }

  get textBytes(): number {
    return this.scan.textBytes;
  }

  get mediaBytes(): readonly number[] {
    return this.scan.mediaBytes;
  }

  get media(): readonly Range[] {
    const { media } = this.scan;
    return media.length > 1 ? media.toSorted((one, other) => one.start - other.start) : media;
  }

  get addresses(): number {
    return this.scan.addresses;
  }

  textTokens(most: number): number {
    this.weight ??= weighJson(this.bytes, this.scan.fields, this.media, most);
    return Math.min(this.weight, most);
  }

  get values(): number {
    return this.scan.values;
  }

  names(): Iterable<string> {
    return this.scan.fields.keys();
  }

  has(name: string): boolean {
    const field = this.scan.fields.get(name);
    return field !== undefined && this.bytes[field.start] !== nullStart;
  }

  isArray(name: string): boolean {
    const field = this.scan.fields.get(name);
    return field !== undefined && this.bytes[field.start] === openBracket;
  }

  read(name: string): unknown {
    return readScalar(this.bytes, this.scan, name, maxScalarBytes);
  }

  readText(name: string, maxCharacters: number): string | undefined {
    const field = this.scan.fields.get(name);
    if (!field) return undefined;
    if (this.bytes[field.start] !== quoteStart) throw new RequestError(`field ${name} must be a string`);
    return checkedText(name, field.end - field.start, maxCharacters, () => this.readWhole(name));
  }

  readWhole(name: string, maxBytes?: number): unknown {
    return readField(this.bytes, this.scan, name, maxBytes);
  }

  countCharacters(name: string): number | undefined {
    return countCharacters(this.bytes, this.scan, name);
  }

  countItems(name: string, most: number): Items | undefined {
    return countItems(this.bytes, this.scan, name, most);
  }

  slice(name: string): Buffer | undefined {
    const field = this.scan.fields.get(name);
    return field && this.bytes.subarray(field.start, field.end);
  }

  mayHold(landmark: Landmark): boolean {
    return this.scan.met.includes(landmark);
  }

  hasEscapedLetters(): boolean {
    if (this.hasEscapes !== undefined) return this.hasEscapes;
    const at = this.bytes.indexOf(escapeStart);
    return (this.hasEscapes = at !== -1 && escapedLetter.test(this.bytes.toString("latin1", at)));
  }

  rewrite(changes: Changes): Buffer {
    return rewriteFields(this.bytes, this.scan, changes);
  }
}

/**
 * Reads a JSON object; without `mediaPlaces` all in it is text. Throws JsonScanError when it is none, RequestError when
 * it has more in it than is read, ManyValuesError when it has more values than a lower limit.
 */
export function readJsonBody(bytes: Buffer, mediaPlaces?: MediaPlaces, mostValues?: number): RequestBody {
  return new JsonBody(bytes, mediaPlaces, mostValues);
}
