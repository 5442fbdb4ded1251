import { part, textStart, weighRun, weightOfUnit, type Weighing } from "../token-weights.ts";
import { backslash, code } from "./bytes.ts";
import type { Field, Range } from "./scan.ts";

// No model reads these.
const unread = new Set(["model", "user", "metadata", "stream_options", "safety_identifier", "prompt_cache_key"]);

const openers = new Set([code('"'), code("["), code("{")]);
const smallU = code("u");
const controls: Record<number, number> = { 98: 8, 102: 12, 110: 10, 114: 13, 116: 9 };
const longestEscape = 6;
const checkEvery = 4_096;

const beginWeighing = (): Weighing => ({ sum: 0, before: textStart, at: 0 });

function addUnit(weighing: Weighing, unit: number): void {
  weighing.sum += weightOfUnit(weighing.before, unit);
  weighing.before = unit;
}

/** Adds a character of several bytes (RFC 3629). */
function addWide(weighing: Weighing, bytes: Buffer): void {
  const { at } = weighing;
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

/** Adds an escape as what it stands for. */
function addEscape(weighing: Weighing, bytes: Buffer): void {
  const { at } = weighing;
  const kind = bytes[at + 1] ?? 0;
  const isUnit = kind === smallU;
  const unit = isUnit ? Number.parseInt(bytes.toString("latin1", at + 2, at + longestEscape), 16) : controls[kind];
  addUnit(weighing, unit ?? kind);
  weighing.at = at + (isUnit ? longestEscape : 2);
}

/** Weighs what stands between two places, of JSON or of a text, until it is more than `most`. */
function add(weighing: Weighing, bytes: Buffer, { start, end }: Range, most: number): void {
  weighing.at = start;
  while (weighing.at < end && weighing.sum <= most) {
    const { at } = weighing;
    weighRun(bytes, Math.min(at + checkEvery, end), weighing);
    if (weighing.at > at) continue;
    if (bytes[at] === backslash) addEscape(weighing, bytes);
    else addWide(weighing, bytes);
  }
}

/** Tokens of a text between two places, about. */
export function weighText(bytes: Buffer, start: number, end: number): number {
  const weighing = beginWeighing();
  add(weighing, bytes, { start, end }, Infinity);
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
  const weighing = beginWeighing();
  const mostSum = most / part;
  let next = 0;
  for (const [name, { start, end }] of fields) {
    if (unread.has(name) || !openers.has(bytes[start] ?? 0)) continue;
    let at = start;
    while ((media[next]?.start ?? Infinity) < start) next += 1;
    for (; next < media.length && (media[next] as Range).start < end; next += 1) {
      const range = media[next] as Range;
      add(weighing, bytes, { start: at, end: range.start }, mostSum);
      at = range.end;
    }
    add(weighing, bytes, { start: at, end }, mostSum);
    if (weighing.sum > mostSum) break;
  }
  return weighing.sum * part;
}
