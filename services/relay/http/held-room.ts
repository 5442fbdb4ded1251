import type { ReplyPlace } from "./reply-room.ts";

// As of bodies, what is smaller does not count.
const countedBytes = 65_536;

export type Flowing = {
  /** What is in memory of it now. */
  bytes: () => number;
  /** Called when nothing more may be read, and when it may again. */
  hold: () => void;
  free: () => void;
};

/** The room of what comes piece by piece and is kept until its caller has it: it is not read on while there is none. */
export class HeldRoom implements Disposable {
  private readonly place: ReplyPlace;
  private readonly flowing: Flowing;
  private isFull = false;
  private isOver = false;
  private isSlow = false;

  constructor(place: ReplyPlace, flowing: Flowing) {
    this.place = place;
    this.flowing = flowing;
  }

  get isWaiting(): boolean {
    return this.isFull;
  }

  /** Some has come, or has gone. */
  look(): void {
    if (this.isOver) return;
    const bytes = this.flowing.bytes();
    if (bytes <= countedBytes) return this.giveBack();
    if (bytes <= this.place.heldBytes || this.place.claim(bytes, this.goOn) || this.isFull) return;
    this.isFull = true;
    this.flowing.hold();
  }

  /** Its caller reads slowly: the connection to him is broken off when others have waited for room for long. */
  awaitReader(hangUp: () => void): void {
    if (this.isSlow || this.place.heldBytes === 0) return;
    this.isSlow = true;
    this.place.awaitReader(hangUp);
  }

  /** Gives all back: nothing more is kept of what is read. */
  [Symbol.dispose](): void {
    this.isOver = true;
    this.place.release();
    this.goOn();
  }

  private giveBack(): void {
    this.isSlow = false;
    if (this.place.heldBytes > 0 || this.isFull) this.place.release();
    this.goOn();
  }

  private readonly goOn = (): void => {
    if (!this.isFull) return;
    this.isFull = false;
    this.flowing.free();
  };
}
