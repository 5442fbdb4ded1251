import { beginWeighing, part, weighRun, weightOfUnit, type Weighing } from "../token-weights.ts";
import { code } from "./bytes.ts";
import type { Field, Range } from "./scan.ts";

// No model reads these.
const unread = new Set(["model", "user", "metadata", "stream_options", "safety_identifier", "prompt_cache_key"]);

const openers = new Set([code('"'), code("["), code("{")]);
const smallU = code("u");
const firstAfterAscii = 128;
const longestEscape = 6;
// A text is weighed in blocks; of those behind the first bytes of a body a sample, whose error is a few percent.
const blockBytes = 4_096;
const sampleBytes = 512;
const exactBytes = 256 * 1024;

function addUnit(weighing: Weighing, unit: number): void {
  weighing.sum += weightOfUnit(weighing.before, unit);
  weighing.before = unit;
}

/** Adds a character of several bytes (RFC 3629). */
function addWide(weighing: Weighing): void {
  const { at, bytes } = weighing;
  const lead = bytes[at] as number;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  let point = lead & (0xff >> (length + 1));
  for (let next = 1; next < length; next += 1) point = (point << 6) | ((bytes[at + next] ?? 0) & 0x3f);
  if (point > 0xffff) {
    addUnit(weighing, 0xd800 + ((point - 0x1_00_00) >> 10));
    point = 0xdc00 + (point & 0x3ff);
  }
  addUnit(weighing, length === 1 ? lead : point);
  weighing.at = at + length;
}

/** Adds a code unit that is written as its number, or what stands behind a backslash in a text that is no JSON. */
function addEscape(weighing: Weighing): void {
  const { at, bytes } = weighing;
  const kind = bytes[at + 1] ?? 0;
  const isUnit = kind === smallU;
  const unit = isUnit ? Number.parseInt(bytes.toString("latin1", at + 2, at + longestEscape), 16) : kind;
  addUnit(weighing, unit || 0);
  weighing.at = at + (isUnit ? longestEscape : 2);
}

/** Weighs bytes between two places until they are more than `most`. */
function addAll(weighing: Weighing, { start, end }: Range, most: number): void {
  weighing.at = start;
  while (weighing.at < end && weighing.sum <= most) {
    const { at, bytes } = weighing;
    if ((bytes[at] as number) >= firstAfterAscii) {
      addWide(weighing);
      continue;
    }
    weighRun(weighing, Math.min(at + blockBytes, end));
    if (weighing.at === at) addEscape(weighing);
  }
}

const isInside = (byte = 0): boolean => (byte & 0xc0) === 0x80;

/**
 * Weighs what stands between two places, of JSON or of a text, until it is more than `most`. Behind the first part of a
 * large body a piece of each block stands for all of it: callers do not know which, so nothing is gained by light
 * pieces between heavy ones.
 */
function add(weighing: Weighing, { start, end }: Range, most: number): void {
  const { bytes } = weighing;
  const exactEnd = Math.min(end, Math.max(start, exactBytes));
  addAll(weighing, { start, end: exactEnd }, most);
  for (let block = exactEnd; block < end && weighing.sum <= most; block += blockBytes) {
    const length = Math.min(blockBytes, end - block);
    let from = block + Math.floor(Math.random() * Math.max(1, length - sampleBytes));
    while (from < end && isInside(bytes[from])) from += 1;
    const to = Math.min(from + sampleBytes, block + length);
    const before = weighing.sum;
    addAll(weighing, { start: from, end: to }, Infinity);
    weighing.sum = before + ((weighing.sum - before) * length) / Math.max(1, to - from);
  }
}

/** Tokens of a text between two places, about. */
export function weighText(bytes: Buffer, start: number, end: number): number {
  const weighing = beginWeighing(bytes);
  add(weighing, { start, end }, Infinity);
  return weighing.sum * part;
}

/**
 * Tokens of a body's text, about: of all its fields that a model may read, but for the media in them. It is the only
 * pass over a body besides its scan, and ends where there are more tokens than the model takes.
 */
export function weighJson(
  bytes: Buffer,
  fields: ReadonlyMap<string, Field>,
  media: readonly Range[],
  most: number,
): number {
  const weighing = beginWeighing(bytes);
  const mostSum = most / part;
  let next = 0;
  for (const [name, { start, end }] of fields) {
    if (unread.has(name) || !openers.has(bytes[start] ?? 0)) continue;
    let at = start;
    while ((media[next]?.start ?? Infinity) < start) next += 1;
    for (; next < media.length && (media[next] as Range).start < end; next += 1) {
      const range = media[next] as Range;
      add(weighing, { start: at, end: range.start }, mostSum);
      at = range.end;
    }
    add(weighing, { start: at, end }, mostSum);
    if (weighing.sum > mostSum) break;
  }
  return weighing.sum * part;
}
