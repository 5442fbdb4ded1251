import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import type { ReplyPlace } from "../http/reply-room.ts";

// As of bodies, what is smaller does not count.
const countedBytes = 65_536;

type Reading = {
  /** What has been passed on and is not gone yet. */
  unreadBytes: () => number;
  /** Called when nothing more may be read, and when it may again. */
  hold: () => void;
  free: () => void;
};

/**
 * The memory of what comes on a WebSocket of an upstream: a frame while it arrives, while it is read, and until its
 * caller has it. It is taken of the room for whole answers, because a frame is one: the socket is not read while there
 * is none.
 */
export class FrameRoom implements Disposable {
  private readonly place: ReplyPlace;
  private readonly reading: Reading;
  private arriving = 0;
  private passing = 0;
  private isFull = false;
  private isOver = false;

  constructor(place: ReplyPlace, reading: Reading) {
    this.place = place;
    this.reading = reading;
  }

  /** Counts what comes from now on. */
  watch(webSocket: WebSocket, connection: Duplex): void {
    // Before the frame is taken out of it.
    connection.prependListener("data", (chunk: Buffer) => this.arrive(chunk.length));
    webSocket.prependListener("message", (data) => {
      this.arriving = 0;
      this.passing += (data as Buffer).length;
    });
  }

  get isWaiting(): boolean {
    return this.isFull;
  }

  /** A frame has been passed on, or is of no use. */
  passed(bytes: number): void {
    this.passing -= bytes;
    this.settle();
  }

  /** Its caller reads slowly: the connection to him is broken off when others have waited for room for long. */
  awaitReader(hangUp: () => void): void {
    this.place.awaitReader(hangUp);
  }

  /** Gives back what is not in use any more. */
  settle(): void {
    if (this.bytes() > countedBytes) return;
    this.place.release();
    this.goOn();
  }

  /** Gives all back: the socket is read no more. */
  [Symbol.dispose](): void {
    this.isOver = true;
    this.place.release();
  }

  private bytes(): number {
    return this.arriving + this.passing + this.reading.unreadBytes();
  }

  private arrive(bytes: number): void {
    this.arriving += bytes;
    if (this.isOver) return;
    const all = this.bytes();
    if (all <= countedBytes || all <= this.place.heldBytes) return;
    if (this.place.claim(all, this.goOn) || this.isFull) return;
    this.isFull = true;
    this.reading.hold();
  }

  private readonly goOn = (): void => {
    if (!this.isFull) return;
    this.isFull = false;
    this.reading.free();
  };
}
