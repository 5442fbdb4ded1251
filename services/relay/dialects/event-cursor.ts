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

function release(cursor: EventCursor): void {
  cursor.bytes = nothing;
  cursor.start = cursor.end = 0;
}

/** Makes a cursor through server-sent events. */
export function createEventCursor(maxEventBytes: number): EventCursor {
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
      const end = eventEnd(bytes, start, Math.max(start, searchFrom));
      if (end === -1) {
        // An idle stream keeps nothing of what it has passed on.
        if (start === bytes.length) release(cursor);
        if (bytes.length - start <= maxEventBytes) return undefined;
        throw new EventTooLargeError(`an event exceeds ${maxEventBytes} bytes`);
      }
      cursor.end = end;
      return readStreamEvent(bytes.subarray(start, end));
    },
    rest: () => (cursor.end === 0 ? cursor.bytes : cursor.bytes.subarray(cursor.end)),
  };
  return cursor;
}
