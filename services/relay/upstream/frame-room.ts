import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { HeldRoom } from "../http/held-room.ts";
import type { ReplyPlace } from "../http/reply-room.ts";

type Reading = {
  /** What has been passed on and is not gone yet. */
  unreadBytes: () => number;
  /** Called when nothing more may be read, and when it may again. */
  hold: () => void;
  free: () => void;
};

/**
 * The memory of what comes on a WebSocket of an upstream: a frame while it arrives, while it is read, and until its
 * caller has it. It is taken of the room for whole answers, because a frame is one.
 */
export class FrameRoom implements Disposable {
  private readonly room: HeldRoom;
  private arriving = 0;
  private passing = 0;

  constructor(place: ReplyPlace, { unreadBytes, hold, free }: Reading) {
    this.room = new HeldRoom(place, { bytes: () => this.arriving + this.passing + unreadBytes(), hold, free });
  }

  /** Counts what comes from now on. */
  watch(webSocket: WebSocket, connection: Duplex): void {
    // Before the frame is taken out of it.
    connection.prependListener("data", (chunk: Buffer) => {
      this.arriving += chunk.length;
      this.room.look();
    });
    webSocket.prependListener("message", (data) => {
      this.arriving = 0;
      this.passing += (data as Buffer).length;
    });
  }

  get isWaiting(): boolean {
    return this.room.isWaiting;
  }

  /** A frame has been passed on, or is of no use. */
  passed(bytes: number): void {
    this.passing -= bytes;
    this.settle();
  }

  /** Its caller reads slowly: the connection to him is broken off when others have waited for room for long. */
  awaitReader(hangUp: () => void): void {
    this.room.awaitReader(hangUp);
  }

  /** Gives back what is not in use any more. Whether more may be read. */
  settle(): boolean {
    this.room.look();
    return !this.room.isWaiting;
  }

  /** Gives all back: the socket is read no more. */
  [Symbol.dispose](): void {
    this.room[Symbol.dispose]();
  }
}
