import type { StreamTap, Tally } from "../dialects/dialect.ts";
import { createEventCursor, type EventCursor } from "../dialects/event-cursor.ts";
import { JsonDigest } from "../dialects/json/digest.ts";
import { eventJson, EventTooLargeError } from "../dialects/sse.ts";
import { TurnShare, type Pausable } from "../http/turn-share.ts";

const lf = 10;
const cr = 13;
const dataField = "data:";
const sliceBytes = 65_536;
/** What is larger is read by its likeness here: nothing of it goes to anybody. */
const largeEventBytes = 262_144;
// A few items of an answer, with what they begin with, and a picture's beginning.
const likenessLimits = { textBytes: 1_024, fieldBytes: 65_536, bytes: 524_288, hasInnerFields: true };

/** A small likeness of the data of one event, made piece by piece as it comes. */
class EventDigest {
  private readonly digest = new JsonDigest(likenessLimits);
  private lineStart = "";
  private isLineKnown = false;

  /** Nothing that comes can make an object of it. */
  get isBroken(): boolean {
    return this.digest.isBroken;
  }

  /** Reads on; the place behind the event's end, -1 where that is still to come. */
  add(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length) {
      if (this.isLineKnown) at = this.readLine(bytes, at);
      else if (this.beginLine(bytes[at++] as number)) return at;
    }
    return -1;
  }

  json(): unknown {
    return eventJson(this.digest.end()?.toString());
  }

  /** Whether the line is the blank one behind an event. */
  private beginLine(byte: number): boolean {
    if (byte === lf) {
      const isBlank = this.lineStart === "";
      this.lineStart = "";
      return isBlank;
    }
    if (byte !== cr) this.lineStart += String.fromCharCode(byte);
    this.isLineKnown = this.lineStart.length === dataField.length;
    return false;
  }

  private readLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(lf, at);
    const stop = end === -1 ? bytes.length : end;
    if (this.lineStart === dataField) this.digest.add(bytes.subarray(at, stop));
    if (end === -1) return stop;
    this.isLineKnown = false;
    this.lineStart = "";
    return stop + 1;
  }
}

export type MeteredRest = {
  add: (bytes: Buffer) => void;
  /** Does what comes behind all that was added. */
  end: (done: () => void) => void;
};

type Metering = {
  tap: StreamTap;
  tally: Tally;
  source: Pausable;
  /** Most bytes that are read. */
  maxBytes: number;
  /** Whether anybody still asks for it. */
  isWanted: () => boolean;
  onPiece: () => void;
  /** Told that nothing can be made of what comes. */
  onBroken: (thrown: unknown) => void;
};

/**
 * Reads the rest of a stream for its bill, beginning with an event that is too large for anybody: the provider has made
 * it, and tells its counts in it or behind it.
 */
export function meterRest({ tap, tally, source, maxBytes, isWanted, onPiece, onBroken }: Metering): MeteredRest {
  const share = new TurnShare(source);
  let large: EventDigest | undefined = new EventDigest();
  let cursor: EventCursor = createEventCursor(largeEventBytes);
  let bytes = 0;
  let isOver = false;

  const readLarge = (digest: EventDigest, slice: Buffer): void => {
    const end = digest.add(slice);
    if (digest.isBroken) throw new EventTooLargeError("a large event that is no object");
    if (end === -1) return;
    large = undefined;
    tap.read({ data: "", json: digest.json() }, tally);
    read(slice.subarray(end));
  };
  const readEvents = (slice: Buffer): void => {
    cursor.push(slice);
    try {
      for (let event = cursor.next(); event; event = cursor.next()) tap.read(event, tally);
    } catch (thrown) {
      if (!(thrown instanceof EventTooLargeError)) throw thrown;
      const rest = cursor.bytes.subarray(cursor.start);
      cursor = createEventCursor(largeEventBytes);
      large = new EventDigest();
      readLarge(large, rest);
    }
  };
  const read = (slice: Buffer): void => {
    if (large) readLarge(large, slice);
    else readEvents(slice);
  };
  const step = (slice: Buffer): void => {
    if (isOver || !isWanted()) return;
    try {
      read(slice);
      onPiece();
    } catch (thrown) {
      isOver = true;
      onBroken(thrown);
    }
  };
  return {
    add: (piece) => {
      bytes += piece.length;
      if (bytes > maxBytes && !isOver) {
        isOver = true;
        onBroken(new EventTooLargeError(`the stream exceeds ${maxBytes} bytes behind a large event`));
      }
      for (let at = 0; at < piece.length && !isOver; at += sliceBytes) {
        const slice = piece.subarray(at, at + sliceBytes);
        share.take(slice.length, () => step(slice));
      }
    },
    end: (done) => share.take(0, done),
  };
}
