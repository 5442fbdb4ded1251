import { eventEnd, EventTooLargeError, readStreamEvent, type StreamEvent } from "./sse.ts";

/** Goes through the events of a stream without copying those that arrive whole. */
export type EventCursor = {
  /** What was left and the last chunk, in which the event stands that was read last. */
  bytes: Buffer;
  start: number;
  end: number;
  /** Takes a chunk, when all events of the one before were read. */
  push(chunk: Buffer): void;
  /**
   * Reads the next event that is complete, terminator included. Raises EventTooLargeError when what is left behind
   * the last one is larger than the limit, so that a broken upstream cannot fill the memory.
   */
  next(): StreamEvent | undefined;
  /** Goes behind an event that was read otherwise. */
  skipTo(end: number): void;
  /** Bytes of an event that is not complete yet. */
  rest(): Buffer;
};

const nothing = Buffer.alloc(0);
// What is left of most chunks is part of a small event. A large one comes in many pieces, and copying all of it for
// each of them would take minutes.
const roomFromBytes = 65_536;

class ChunkCursor implements EventCursor {
  bytes: Buffer = nothing;
  start = 0;
  end = 0;
  private searchFrom = 0;
  /** Memory of a large event that is not complete yet, with room for more of it. */
  private room: Buffer | undefined;
  private readonly maxEventBytes: number;

  constructor(maxEventBytes: number) {
    this.maxEventBytes = maxEventBytes;
  }

  push(chunk: Buffer): void {
    const rest = this.rest();
    if (rest.length >= roomFromBytes) this.bytes = this.append(rest, chunk);
    else {
      this.room = undefined;
      this.bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    }
    this.end = 0;
    // No line feed of the rest ended it.
    this.searchFrom = rest.length;
  }

  next(): StreamEvent | undefined {
    const { bytes, end: start, maxEventBytes } = this;
    this.start = start;
    const end = eventEnd(bytes, start, Math.max(start, this.searchFrom));
    if (end === -1) {
      // An idle stream keeps nothing of what it has passed on.
      if (start === bytes.length) this.release();
      if (bytes.length - start <= maxEventBytes) return undefined;
      throw new EventTooLargeError(`an event exceeds ${maxEventBytes} bytes`);
    }
    this.end = end;
    return readStreamEvent(bytes.subarray(start, end));
  }

  skipTo(end: number): void {
    this.end = end;
  }

  rest(): Buffer {
    return this.end === 0 ? this.bytes : this.bytes.subarray(this.end);
  }

  /** Nothing of the memory changes that was given away: what comes is added behind it. */
  private append(rest: Buffer, chunk: Buffer): Buffer {
    const length = rest.length + chunk.length;
    let from = rest.byteOffset - (this.room?.byteOffset ?? 0);
    let { room } = this;
    if (!room || rest.buffer !== room.buffer || from + length > room.length) {
      this.room = room = Buffer.allocUnsafeSlow(2 * length);
      rest.copy(room);
      from = 0;
    }
    chunk.copy(room, from + rest.length);
    return room.subarray(from, from + length);
  }

  private release(): void {
    this.room = undefined;
    this.bytes = nothing;
    this.start = this.end = 0;
  }
}

/** Makes a cursor through server-sent events. */
export function createEventCursor(maxEventBytes: number): EventCursor {
  return new ChunkCursor(maxEventBytes);
}

/** All events of a stream that is whole, the last one also without its blank line. Raises EventTooLargeError. */
export function* eventsOf(bytes: Buffer): Generator<StreamEvent> {
  const cursor = createEventCursor(bytes.length);
  cursor.push(bytes);
  for (let event = cursor.next(); event; event = cursor.next()) yield event;
  const rest = cursor.rest();
  if (rest.length > 0) yield readStreamEvent(rest);
}
