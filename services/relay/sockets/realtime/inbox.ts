import type { WebSocket } from "ws";
import { roomInTurn } from "../../http/turn-share.ts";

// Smaller ones are read in no time.
const largeBytes = 8_192;

type Frame = [bytes: Buffer, isBinary: boolean];

/** Takes the frames of a socket one after the other, each when the one before has been dealt with. */
export class Inbox {
  private readonly source: WebSocket;
  private readonly take: (bytes: Buffer, isBinary: boolean) => void | Promise<void>;
  private readonly waiting: Frame[] = [];
  private isBusy = false;
  private isHeld = false;

  constructor(source: WebSocket, take: (bytes: Buffer, isBinary: boolean) => void | Promise<void>) {
    this.source = source;
    this.take = take;
    source.on("message", (data, isBinary) => this.push(data as Buffer, isBinary));
  }

  /** Reads no more of the socket for now. */
  hold(): void {
    this.isHeld = true;
    this.source.pause();
  }

  /** Reads on. */
  free(): void {
    if (!this.isHeld) return;
    this.isHeld = false;
    if (!this.isBusy) this.source.resume();
  }

  private push(bytes: Buffer, isBinary: boolean): void {
    if (!this.isBusy) return void this.run(bytes, isBinary);
    // What was read already still comes.
    this.waiting.push([bytes, isBinary]);
    this.source.pause();
  }

  private async run(bytes: Buffer, isBinary: boolean): Promise<void> {
    this.isBusy = true;
    for (let next: Frame | undefined = [bytes, isBinary]; next; next = this.waiting.shift()) {
      // Many sockets may have a large one in the same turn.
      const room: Promise<void> | undefined = next[0].length > largeBytes ? roomInTurn() : undefined;
      if (room) await room;
      const dealt = this.take(...next);
      if (dealt) await dealt;
    }
    this.isBusy = false;
    if (!this.isHeld) this.source.resume();
  }
}
