import type { ReadMessage } from "../records/read-event.ts";

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

// A quarter of what the stream gives out to all replicas before it hears of any: a rest with more would be one for want
// of acknowledgements, in which nothing gathers.
const enoughMessages = 256;

const restMs = { least: 5, perEvent: 5, most: 250 };

/**
 * Between two batches there is a rest in which the second gathers: as long as the first would have taken to come at
 * 200 events a second, so that it is short where few come and a quarter of a second where thousands do. A transaction
 * costs as much as some hundred events. A batch that is full, in events or in messages, is taken at once; after a rest
 * so is one that comes alone.
 */
export function createIntake<M>(): Intake<M> {
  let waiting: Waiting<M>[] = [];
  let events = 0;
  let isClosed = false;
  let resting: NodeJS.Timeout | undefined;
  let changed = Promise.withResolvers<void>();
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const isFull = (): boolean => events >= maxBatchEvents || waiting.length >= enoughMessages;
  const endRest = (): void => {
    clearTimeout(resting);
    resting = undefined;
  };
  const rest = (forEvents: number): void => {
    endRest();
    const lastsMs = Math.min(Math.max(forEvents * restMs.perEvent, restMs.least), restMs.most);
    resting = setTimeout(() => {
      resting = undefined;
      notify();
    }, lastsMs);
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
      if (!resting) rest(0);
      while (resting && !isFull() && !isClosed) await changed.promise;
      if (isClosed) return [];
      const count = countForBatch(waiting);
      const taken = waiting.slice(0, count);
      waiting = waiting.slice(count);
      const before = events;
      for (const entry of taken) events -= sizeOf(entry);
      rest(before - events);
      notify();
      return taken;
    },
    close: () => {
      isClosed = true;
      endRest();
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
