import type { ReadMessage } from "./read.ts";

/** A message that waits to be booked. */
export type Waiting<M> = ReadMessage & { message: M };

/** Where messages gather until a transaction takes them; bounded by its users, who wait for room. */
export type Intake<M> = {
  /** Adds a message; resolves when there is room for the next. */
  put: (waiting: Waiting<M>) => Promise<void>;
  /** The next messages, about `maxBatchEvents` events; waits for the first; empty when closed. */
  take: () => Promise<Waiting<M>[]>;
  /** Ends waiting on both sides; returns the messages that nobody took. */
  close: () => M[];
};

/** Events of one transaction; a single message with more is not divided. */
export const maxBatchEvents = 2_000;
// One batch is read while the one before is booked; more would only be memory that the garbage collector copies.
const maxWaitingEvents = maxBatchEvents;

/**
 * `lingerMs` is how long a batch that is not full waits for more: short, because messages that come while a
 * transaction runs gather by themselves, and a call that comes alone must be booked at once.
 */
export function createIntake<M>(lingerMs: number): Intake<M> {
  let waiting: Waiting<M>[] = [];
  let events = 0;
  let isClosed = false;
  let changed = Promise.withResolvers<void>();
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const linger = async (): Promise<void> => {
    const deadline = Promise.withResolvers<void>();
    const timer = setTimeout(deadline.resolve, lingerMs);
    let isOver = false;
    void deadline.promise.then(() => (isOver = true));
    while (!isOver && !isClosed && events < maxBatchEvents) await Promise.race([changed.promise, deadline.promise]);
    clearTimeout(timer);
  };
  return {
    put: async (entry) => {
      waiting.push(entry);
      events += sizeOf(entry);
      notify();
      while (events >= maxWaitingEvents && !isClosed) await changed.promise;
    },
    take: async () => {
      while (waiting.length === 0 && !isClosed) await changed.promise;
      if (events < maxBatchEvents) await linger();
      if (isClosed) return [];
      const count = countForBatch(waiting);
      const taken = waiting.slice(0, count);
      waiting = waiting.slice(count);
      for (const entry of taken) events -= sizeOf(entry);
      notify();
      return taken;
    },
    close: () => {
      isClosed = true;
      const left = waiting.map(({ message }) => message);
      waiting = [];
      events = 0;
      notify();
      return left;
    },
  };
}

function sizeOf({ events, rejects }: ReadMessage): number {
  // A message without events takes a place, too: the number of messages in hand must be bounded as well.
  return Math.max(1, events.length + rejects.length);
}

function countForBatch(waiting: readonly ReadMessage[]): number {
  let events = 0;
  let count = 0;
  for (const entry of waiting) {
    events += sizeOf(entry);
    if (count > 0 && events > maxBatchEvents) break;
    count += 1;
  }
  return count;
}
