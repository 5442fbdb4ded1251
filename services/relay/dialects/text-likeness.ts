import { emptyTally, estimateTokens, type StreamTap, type Tally } from "./dialect.ts";
import { backslash, code, quote, standsAt } from "./json/bytes.ts";
import { readStreamEvent, type StreamEvent } from "./sse.ts";
import { estimateAsciiTokens } from "./token-weights.ts";

// Worth its place: a chunk that passes costs the relay's whole path 22 µs of CPU instead of 26 (deploy/bench/README.md,
// What was tried). Only streams that pass untouched are skimmed; a translated event is read in any case.

/**
 * Knows the events of a stream that are like one before but for their texts. Nearly all events of an answer are, and
 * nothing of them matters but how much text it is: they need not be parsed.
 */
export type TextLikeness = {
  /** Index behind the event that begins at `start`, its text counted; -1 for one that must be read. */
  skim: (bytes: Buffer, start: number, tally: Tally) => number;
  /** Learns from the event between two places, which was read and has passed. */
  learn: (bytes: Buffer, start: number, end: number) => void;
};

/** What events have in common: `literals`, and between them texts, of which some are counted as content. */
type Frame = { literals: Buffer[]; isCounted: boolean[] };

/** What an event says by its frame: its content in estimated tokens. */
type TokenCount = { tokens: number };

const space = code(" ");
const firstAfterAscii = 128;
// Of an event that is learned from, and of a text that is skimmed: one that comes in pieces is looked at with each.
const mostBytes = 4_096;
// The text, and what some providers pad it with so that its length cannot be told from outside.
const mostTexts = 3;
// Looking at two neighbours costs a part of what reading one does, a trial some times that: no stream pays for much
// more of it than its skimmed events have spared.
const mostCredit = 64;
const trialCost = 4;
const skimCredit = 0.25;
const shortProbe = "probe";
// A field's name is no text: it may become the name of one that means something.
const probedName = /probe"\s*:/;
const longProbe = "x".repeat(1_009);

/** A copy that keeps nothing else alive: neither the chunk, nor what shares a place in memory with small buffers. */
export function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}

/** Index of the quote that ends a text; -1 for one that is long or goes on, or is none. */
function textEnd(bytes: Buffer, start: number): number {
  const limit = Math.min(bytes.length, start + mostBytes + 1);
  for (let at = start; at < limit; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) return at;
    if (byte < space) return -1;
    if (byte === backslash) at += 1;
  }
  return -1;
}

/** What two events have in common around the texts in which they differ; undefined when they differ in more. */
function literalsOf(before: Buffer, event: Buffer): Buffer[] | undefined {
  const literals: Buffer[] = [];
  let from = 0;
  let [at, atBefore] = [0, 0];
  while (at < event.length && atBefore < before.length) {
    if (event[at] === before[atBefore]) {
      at += 1;
      atBefore += 1;
      continue;
    }
    const start = event.subarray(from, at).lastIndexOf(quote) + from + 1;
    const end = textEnd(event, start);
    const endBefore = textEnd(before, start - at + atBefore);
    if (start === from || end === -1 || endBefore === -1 || literals.length === mostTexts) return undefined;
    literals.push(event.subarray(from, start));
    [at, atBefore, from] = [end, endBefore, end];
  }
  if (literals.length === 0 || at < event.length || atBefore < before.length) return undefined;
  return [...literals, event.subarray(from)];
}

/** An event of these texts; undefined for one without data. */
function probeOf(literals: Buffer[], texts: string[]): StreamEvent | undefined {
  const bytes = literals.flatMap((literal, index) => [literal, Buffer.from(texts[index] ?? "")]);
  const event = readStreamEvent(Buffer.concat(bytes));
  return event.data === undefined || probedName.test(event.data) ? undefined : event;
}

/** Content that a tap counts in an event, in tokens; undefined when it finds anything else in it. */
function countedBy(tap: StreamTap, event: StreamEvent | undefined): number | undefined {
  if (!event) return undefined;
  const tally = emptyTally();
  const verdict = tap.read(event, tally);
  const { contentTokens, modelServed, serviceTier, counted } = tally;
  const expected: Tally = { ...emptyTally(), contentTokens, hasContent: true, modelServed, serviceTier, counted };
  const isElse = Object.entries(expected).some(([name, value]) => tally[name as keyof Tally] !== value);
  return verdict !== "pass" || isElse || Object.keys(counted).length > 0 ? undefined : contentTokens;
}

/**
 * Tries the tap with texts of other lengths, which tells what it counts: two events may differ by chance only in what
 * is no content.
 */
function frameOf(literals: Buffer[], tap: StreamTap): Frame | undefined {
  // How an event is read rests on what stands before its data.
  if (!literals[0]?.includes("data")) return undefined;
  const places = literals.slice(1).map((_, place) => place);
  const allShort = places.map(() => shortProbe);
  const short = countedBy(tap, probeOf(literals, allShort));
  const more = places.map((longer) => {
    const texts = places.map((place) => (place === longer ? longProbe : shortProbe));
    return (countedBy(tap, probeOf(literals, texts)) ?? Number.NaN) - (short ?? Number.NaN);
  });
  const isCounted = more.map((tokens) => tokens > 0);
  const all = isCounted.filter(Boolean).length * estimateTokens(shortProbe);
  return all > 0 && short === all ? { literals, isCounted } : undefined;
}

function isPlain(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte >= firstAfterAscii || byte === backslash) return false;
  }
  return true;
}

/** A text as it is meant; undefined when its escapes are none of JSON's. */
function textOf(bytes: Buffer, start: number, end: number): string | undefined {
  const text = bytes.toString("utf8", start, end);
  if (!text.includes("\\")) return text;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return undefined;
  }
}

/** Reads an event by its frame; gives the index behind it, or -1. */
function find({ literals, isCounted }: Frame, bytes: Buffer, start: number, found: TokenCount): number {
  let at = start;
  found.tokens = 0;
  for (let index = 0; index < literals.length; index += 1) {
    const literal = literals[index] as Buffer;
    if (!standsAt(bytes, literal, at)) return -1;
    at += literal.length;
    if (index === isCounted.length) break;
    const end = textEnd(bytes, at);
    if (end === -1) return -1;
    const isContent = isCounted[index] === true;
    if (!isPlain(bytes, at, end)) {
      const text = textOf(bytes, at, end);
      if (text === undefined) return -1;
      if (isContent) found.tokens += estimateTokens(text);
    } else if (isContent) found.tokens += estimateAsciiTokens(bytes, at, end);
    at = end;
  }
  return at;
}

/** Makes one for a stream that is watched by a tap; it learns nothing where texts mean more (no `createAlike`). */
export function createTextLikeness({ createAlike }: StreamTap): TextLikeness {
  const found: TokenCount = { tokens: 0 };
  let frame: Frame | undefined;
  let last: Buffer | undefined;
  let credit = createAlike ? mostCredit : 0;
  const learnFrame = (event: Buffer): void => {
    if (!createAlike || credit < 1 || event.length > mostBytes) return;
    // The same again, and texts with escapes: neither tells of a frame.
    if (last?.equals(event) || event.includes(backslash)) return;
    credit -= 1;
    const copy = copyOf(event);
    const literals = last && literalsOf(last, copy);
    last = copy;
    if (!literals || credit < trialCost) return;
    credit -= trialCost;
    frame = frameOf(literals, createAlike()) ?? frame;
  };
  return {
    skim: (bytes, start, tally) => {
      // Behind the end mark nothing counts.
      const end = frame && !tally.isComplete ? find(frame, bytes, start, found) : -1;
      if (end === -1) return -1;
      const { tokens } = found;
      tally.contentTokens += tokens;
      tally.hasContent ||= tokens > 0;
      if (credit < mostCredit) credit += skimCredit;
      return end;
    },
    learn: (bytes, start, end) => learnFrame(bytes.subarray(start, end)),
  };
}
