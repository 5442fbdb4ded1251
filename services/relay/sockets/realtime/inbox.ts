import type { WebSocket } from "ws";

/** Takes the frames of a socket one after the other, each when the one before has been dealt with. */
export class Inbox {
  private readonly source: WebSocket;
  private readonly take: (bytes: Buffer, isBinary: boolean) => void | Promise<void>;
  private readonly waiting: [bytes: Buffer, isBinary: boolean][] = [];
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
    const dealt = this.take(bytes, isBinary);
    if (dealt) await dealt;
    for (let next = this.waiting.shift(); next; next = this.waiting.shift()) {
      const more = this.take(...next);
      if (more) await more;
    }
    this.isBusy = false;
    if (!this.isHeld) this.source.resume();
  }
}
