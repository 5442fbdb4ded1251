import { parseJson } from "./json/long-texts.ts";
import { hasManyMarks } from "./json/marks.ts";

const lf = 10;
const cr = 13;
// As many as a body may have values. Probabilities of tokens may be some 100,000 in the last event of an answer.
const maxMarks = 500_000;
const colonCode = 58;
const spaceCode = 32;
const dataField = Buffer.from("data");
// Some servers begin a stream, or a body, with one; it is no part of the text.
const markCode = 0xfeff;
const byteOrderMark = Buffer.from("\u{feff}");

/**
 * Index just behind the blank line that ends the event which begins at `start`, or -1; nothing before `from` can be
 * its end. Lines end in LF or CRLF.
 */
export function eventEnd(bytes: Buffer, start: number, from: number): number {
  for (let at = bytes.indexOf(lf, from); at !== -1; at = bytes.indexOf(lf, at + 1)) {
    const lineEnd = bytes[at - 1] === cr ? at - 1 : at;
    if (lineEnd === start || bytes[lineEnd - 1] === lf) return at + 1;
  }
  return -1;
}

const carriageEnd = (event: Buffer, lineEnd: number): number => (event[lineEnd - 1] === cr ? lineEnd - 1 : lineEnd);

/** Whether nothing but the end of the event follows a line's end. */
function isLastLine(event: Buffer, lineEnd: number): boolean {
  const rest = event.length - lineEnd - 1;
  return rest <= 0 || (rest <= 2 && event[event.length - 1] === lf);
}

const withoutMark = (bytes: Buffer): Buffer =>
  bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? bytes.subarray(byteOrderMark.length) : bytes;

/** The data of an event, its lines joined as the standard says; undefined for an event without data (a comment). */
export function eventData(bytes: Buffer): string | undefined {
  const event = bytes[0] === byteOrderMark[0] ? withoutMark(bytes) : bytes;
  // Nearly every provider event is one "data: {…}" line, alone or behind an "event:" line.
  const at = event.indexOf(dataField);
  if (at === -1) return undefined;
  const isLineStart = at === 0 || event[at - 1] === lf || event[at - 1] === cr;
  const lineEnd = event.indexOf(lf, at);
  if (isLineStart && event[at + 4] === colonCode && lineEnd !== -1 && isLastLine(event, lineEnd)) {
    const start = event[at + 5] === spaceCode ? at + 6 : at + 5;
    return event.toString("utf8", start, carriageEnd(event, lineEnd));
  }
  const lines = event.toString("utf8", isLineStart ? at : 0).split(/\r\n|\n|\r/);
  const data: string[] = [];
  for (const line of lines) {
    if (!line.startsWith("data")) continue;
    if (line.length === 4) data.push("");
    else if (line.startsWith("data: ")) data.push(line.slice(6));
    else if (line.startsWith("data:")) data.push(line.slice(5));
  }
  return data.length === 0 ? undefined : data.join("\n");
}

/** Parses the data of an event; undefined when there is none or it is not JSON. */
export function eventJson(data: string | undefined): unknown {
  if (data === undefined) return undefined;
  try {
    return parseJson(data.charCodeAt(0) === markCode ? data.slice(1) : data);
  } catch {
    return undefined;
  }
}

/** An event of a stream, parsed once for all who look at it. */
export type StreamEvent = {
  /** Of `[DONE]` as text; undefined without data, and for bytes that are no events. */
  data: string | undefined;
  /** The data's JSON; undefined when it is none. */
  json: unknown;
  /** As it came, where it did. */
  bytes?: Buffer;
};

/** Raised when one event of a stream is larger than the relay holds, or reads while others wait. */
export class EventTooLargeError extends Error {}

/** Reads an event's data. Raises EventTooLargeError. */
export function readStreamEvent(bytes: Buffer): StreamEvent {
  if (hasManyMarks(bytes, maxMarks)) throw new EventTooLargeError(`an event has more than ${maxMarks} values or lines`);
  const data = eventData(bytes);
  return { data, json: data?.startsWith("[DONE]") ? undefined : eventJson(data), bytes };
}

/** A piece of a stream that has no events. */
export const streamBytes = (bytes: Buffer): StreamEvent => ({ data: undefined, json: undefined, bytes });
