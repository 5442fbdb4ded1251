import type { CreateEvent } from "./client-event.ts";

/** A turn that waits, until it begins with its event, and the bytes of its frame. */
export type Waiting = { event: CreateEvent | undefined; bytes: number };

export type LaneLimits = { maxRunning: number; maxWaiting: number };

const defaultLimits: LaneLimits = { maxRunning: 16, maxWaiting: 32 };

/**
 * The turns of a socket: those of one stream run one after the other, those of different streams side by side. Turns
 * without a stream are one of their own.
 */
export class Lanes {
  private readonly queues = new Map<string | undefined, Waiting[]>();
  private readonly take: (turn: Waiting) => Promise<void>;
  private readonly onIdle: () => void;
  private readonly limits: LaneLimits;
  private waiting = 0;

  constructor(take: (turn: Waiting) => Promise<void>, onIdle: () => void, limits: LaneLimits = defaultLimits) {
    this.take = take;
    this.onIdle = onIdle;
    this.limits = limits;
  }

  /** How many run now. */
  get running(): number {
    return this.queues.size;
  }

  /** Runs a turn when those before it in its stream are over; false where there is no room for it. */
  add(turn: Waiting): boolean {
    const streamId = turn.event?.streamId;
    const queue = this.queues.get(streamId);
    if (!queue) {
      if (this.queues.size >= this.limits.maxRunning) return false;
      void this.run(turn);
      return true;
    }
    if (this.waiting >= this.limits.maxWaiting) return false;
    this.waiting += 1;
    queue.push(turn);
    return true;
  }

  private async run(first: Waiting): Promise<void> {
    const streamId = first.event?.streamId;
    const queue: Waiting[] = [];
    this.queues.set(streamId, queue);
    for (let turn: Waiting | undefined = first; turn; turn = queue.shift()) {
      if (turn !== first) this.waiting -= 1;
      await this.take(turn);
    }
    this.queues.delete(streamId);
    if (this.queues.size === 0) this.onIdle();
  }
}
