import { readShaped, shapeOf, type EventShape } from "./event-shape.ts";
import { eventEnd, readStreamEvent, type StreamEvent } from "./sse.ts";

/** Raised when one event of a stream is larger than the relay holds. */
export class EventTooLargeError extends Error {}

/** Goes through the events of a stream without copying those that arrive whole. */
export type EventCursor = {
  /** What was left and the last chunk, in which the event stands that was read last. */
  bytes: Buffer;
  start: number;
  end: number;
  /** Takes a chunk, when all events of the one before were read. */
  push: (chunk: Buffer) => void;
  /**
   * Reads the next event that is complete, terminator included. Raises EventTooLargeError when what is left behind
   * the last one is larger than the limit, so that a broken upstream cannot fill the memory.
   */
  next: () => StreamEvent | undefined;
  /** Bytes of an event that is not complete yet. */
  rest: () => Buffer;
};

const nothing = Buffer.alloc(0);
const shapedBytes = 4_096;
// Neighbours of one kind have this much in common, even before the first value that differs.
const likenessLength = 16;
const mostTries = 8;
const readsPerTry = 16;

/** Learns the shape of a stream's events from those that were parsed whole. */
function createShapes() {
  let last = "";
  let shape: EventShape | undefined;
  let tries = mostTries;
  let reads = 0;
  const read = (bytes: Buffer, start: number): number => {
    if (!shape) return -1;
    const end = readShaped(shape, bytes, start);
    if (end !== -1 && (reads += 1) % readsPerTry === 0 && tries < mostTries) tries += 1;
    return end;
  };
  const learn = (bytes: Buffer, data: string): void => {
    const before = last;
    last = data;
    if (tries === 0 || !before.startsWith(data.slice(0, likenessLength))) return;
    tries -= 1;
    shape = shapeOf([before, data], bytes, (probe) => readStreamEvent(probe).json) ?? shape;
  };
  return { read, learn, json: () => shape?.json };
}

const someData = "{}";

function release(cursor: EventCursor): void {
  cursor.bytes = nothing;
  cursor.start = cursor.end = 0;
}

/** Makes a cursor through server-sent events. */
export function createEventCursor(maxEventBytes: number): EventCursor {
  const shapes = createShapes();
  let searchFrom = 0;
  const cursor: EventCursor = {
    bytes: nothing,
    start: 0,
    end: 0,
    push: (chunk) => {
      const rest = cursor.rest();
      cursor.bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      cursor.end = 0;
      // No line feed of the rest ended it.
      searchFrom = rest.length;
    },
    next: () => {
      const { bytes, end: start } = cursor;
      cursor.start = start;
      const shapedEnd = shapes.read(bytes, start);
      const end = shapedEnd === -1 ? eventEnd(bytes, start, Math.max(start, searchFrom)) : shapedEnd;
      if (end === -1) {
        // An idle stream keeps nothing of what it has passed on.
        if (start === bytes.length) release(cursor);
        if (bytes.length - start <= maxEventBytes) return undefined;
        throw new EventTooLargeError(`an event exceeds ${maxEventBytes} bytes`);
      }
      cursor.end = end;
      if (shapedEnd !== -1) return { data: someData, json: shapes.json() };
      const event = bytes.subarray(start, end);
      const read = readStreamEvent(event);
      if (event.length <= shapedBytes && read.json !== undefined) shapes.learn(event, read.data ?? "");
      return read;
    },
    rest: () => (cursor.end === 0 ? cursor.bytes : cursor.bytes.subarray(cursor.end)),
  };
  return cursor;
}
