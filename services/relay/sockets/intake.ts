import type { BodyShare } from "../http/body-budget.ts";

// As of bodies over HTTP: small ones count nothing, and large ones must come on.
const freeBytes = 64 * 1024;
const windowMs = 30_000;
const leastBytes = 512 * 1024;

/** The bytes of a socket's frames: those on their way, and those that wait for their turn. */
export class Intake {
  private readonly share: BodyShare;
  private arriving = 0;
  private waiting = 0;
  private windowAtMs = performance.now();
  private inWindow = 0;

  constructor(share: BodyShare) {
    this.share = share;
  }

  /** Tells whether there is room for what came of a frame. */
  arrive(bytes: number): boolean {
    if (this.arriving === 0) this.restart(performance.now());
    this.arriving += bytes;
    this.inWindow += bytes;
    return this.arriving <= freeBytes || this.share.claim(this.arriving + this.waiting);
  }

  /** A frame is whole, and waits; tells whether there is room for it. */
  wait(bytes: number): boolean {
    this.arriving = 0;
    this.waiting += bytes;
    return this.claim();
  }

  /** A frame does not wait any more. */
  leave(bytes: number): void {
    this.waiting -= bytes;
    this.claim();
  }

  /** Whether the sender of a large frame has stopped, or drips. */
  isSlow(nowMs: number): boolean {
    if (nowMs - this.windowAtMs < windowMs) return false;
    const isTooLittle = this.arriving > freeBytes && this.inWindow < leastBytes;
    this.restart(nowMs);
    return isTooLittle;
  }

  release(): void {
    this.share.release();
  }

  private restart(nowMs: number): void {
    this.windowAtMs = nowMs;
    this.inWindow = 0;
  }

  private claim(): boolean {
    this.share.release();
    const bytes = this.arriving + this.waiting;
    return bytes <= freeBytes || this.share.claim(bytes);
  }
}
