import { member } from "./dialect.ts";

/**
 * Events of one stream differ in a few values at most: the text, a sequence number, padding. Once two neighbours have
 * shown where, the bytes around those places are compared and only the places are read. What comes out is what
 * JSON.parse would give, at a fraction of its work.
 */
export type EventShape = { parts: Part[]; json: unknown };

/** Bytes that all events of the shape have, and the value behind them; the last part has none. */
type Part = { literal: Buffer; hole: Hole | undefined };
type Hole = { holder: Record<string, unknown>; key: string; isText: boolean };

const quote = 34;
const backslash = 92;
const space = 32;
const zero = 48;
const nine = 57;

/** Index behind the string that begins at `start`, at its closing quote; -1 where it is broken or goes on. */
function textEnd(bytes: Buffer, start: number): number {
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) return at;
    if (byte < space) return -1;
    if (byte === backslash) at += 1;
  }
  return -1;
}

/** Index behind the digits that begin at `start`; -1 for what is no plain count. */
function digitsEnd(bytes: Buffer, start: number): number {
  let at = start;
  for (let byte = bytes[at] ?? 0; byte >= zero && byte <= nine; byte = bytes[at] ?? 0) at += 1;
  return at > start && (bytes[start] !== zero || at === start + 1) ? at : -1;
}

/** Text without its quotes. Throws a SyntaxError for what JSON does not know. */
function textOf(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString("utf8", start, end);
  return text.includes("\\") ? (JSON.parse(`"${text}"`) as string) : text;
}

function startsWith(bytes: Buffer, at: number, literal: Buffer): boolean {
  if (bytes.length - at < literal.length) return false;
  for (let index = 0; index < literal.length; index += 1) if (bytes[at + index] !== literal[index]) return false;
  return true;
}

/**
 * Reads the event that begins at `start` into the shape's JSON, which is the same object for all its events. Gives the
 * index behind the event, or -1 for one of another shape.
 */
export function readShaped({ parts }: EventShape, bytes: Buffer, start: number): number {
  let at = start;
  for (const { literal, hole } of parts) {
    if (!startsWith(bytes, at, literal)) return -1;
    at += literal.length;
    if (!hole) continue;
    const end = hole.isText ? textEnd(bytes, at) : digitsEnd(bytes, at);
    if (end === -1) return -1;
    try {
      hole.holder[hole.key] = hole.isText ? textOf(bytes, at, end) : Number(bytes.toString("latin1", at, end));
    } catch {
      return -1;
    }
    at = end;
  }
  return at;
}

type Place = { path: string[]; value: string | number };

const maxPlaces = 4;
const maxDepth = 8;

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;

/** Adds the places where two values differ; false where they differ in more than the text or count of a field. */
function addPlaces(one: unknown, other: unknown, path: string[], places: Place[]): boolean {
  if (one === other) return true;
  if (path.length === 0 && (typeof one !== "object" || typeof other !== "object")) return false;
  const isField = !Number.isInteger(Number(path.at(-1)));
  if (isField && ((typeof one === "string" && typeof other === "string") || (isCount(one) && isCount(other)))) {
    return places.push({ path, value: other as string | number }) <= maxPlaces;
  }
  if (typeof one !== "object" || typeof other !== "object" || !one || !other || path.length > maxDepth) return false;
  const keys = Object.keys(one);
  if (Array.isArray(one) !== Array.isArray(other) || keys.length !== Object.keys(other).length) return false;
  const [before, after] = [one as Record<string, unknown>, other as Record<string, unknown>];
  return keys.every((key) => Object.hasOwn(after, key) && addPlaces(before[key], after[key], [...path, key], places));
}

function holeAt(json: unknown, { path, value }: Place): Hole {
  let holder = json as Record<string, unknown>;
  for (const key of path.slice(0, -1)) holder = holder[key] as Record<string, unknown>;
  return { holder, key: path.at(-1) ?? "", isText: typeof value === "string" };
}

/** Where a value stands in an event's bytes, as latin1, without quotes; undefined when it is written otherwise. */
function findValue(event: string, value: string | number): { start: number; end: number } | undefined {
  const isText = typeof value === "string";
  const ways = isText ? [Buffer.from(JSON.stringify(value)).toString("latin1")] : [`:${value}`, `: ${value}`];
  const written = ways.find((way) => event.includes(way));
  if (written === undefined) return undefined;
  const start = event.indexOf(written);
  const end = start + written.length;
  return isText ? { start: start + 1, end: end - 1 } : { start: end - String(value).length, end };
}

/**
 * The shape of two neighbours of a stream, given by their JSON and the second's bytes; undefined where they have none
 * in common. `parse` reads an event's JSON.
 */
export function shapeOf(
  [before, data]: [string, string],
  bytes: Buffer,
  parse: (bytes: Buffer) => unknown,
): EventShape | undefined {
  const json: unknown = JSON.parse(data);
  const places: Place[] = [];
  if (!addPlaces(JSON.parse(before), json, [], places)) return undefined;
  const event = bytes.toString("latin1");
  const found = places.map((place) => ({ place, span: findValue(event, place.value) }));
  if (found.some(({ span, place }) => !span || place.path.includes("__proto__"))) return undefined;
  found.sort((one, other) => (one.span?.start ?? 0) - (other.span?.start ?? 0));
  const parts: Part[] = [];
  let probe = "";
  let at = 0;
  found.forEach(({ place, span = { start: 0, end: 0 } }, index) => {
    const literal = event.slice(at, span.start);
    parts.push({ literal: Buffer.from(literal, "latin1"), hole: holeAt(json, place) });
    probe += literal + String(probeOf(place, index));
    at = span.end;
  });
  parts.push({ literal: Buffer.from(event.slice(at), "latin1"), hole: undefined });
  const probed = parse(Buffer.from(probe + event.slice(at), "latin1"));
  // The same word may stand elsewhere: only what another value has moved is the place that was meant.
  const isProven = found.every(({ place }, index) => place.path.reduce(member, probed) === probeOf(place, index));
  return isProven ? { parts, json } : undefined;
}

const probeOf = ({ value }: Place, index: number): string | number =>
  typeof value === "string" ? `probe ${index}` : 987_654_321_000 + index;
