import type { ReadMessage } from "../records/read-event.ts";

/** A message waiting to be booked. */
export type QueuedMessage<M> = ReadMessage & { message: M };

/** Queues messages until a transaction takes them. Producers wait for room, which bounds it. */
export type BatchQueue<M> = {
  /** Adds a message; resolves when there is room for another. */
  put: (waiting: QueuedMessage<M>) => Promise<void>;
  /** Takes the next messages, about `maxBatchEvents` events. Waits for the first one; empty when closed. */
  take: () => Promise<QueuedMessage<M>[]>;
  /** Ends waiting on both sides; returns the messages not taken. */
  close: () => M[];
};

/** Maximum events per transaction; a single message with more is not split. */
export const maxBatchEvents = 2_000;
// One batch is read while the previous one is booked; more would only be memory for the garbage collector to copy.
const maxWaitingEvents = maxBatchEvents;

// A quarter of what the stream delivers to all replicas before it needs an acknowledgement: with more, a pause would
// wait for messages that the stream holds back.
const enoughMessages = 256;

const pauseMs = { min: 5, perEvent: 5, max: 250 };

/**
 * Pauses between two batches, so that the second one can fill: as long as the first would have taken to arrive at 200
 * events a second, which is short at low rates and a quarter of a second at thousands of events. A transaction costs as
 * much as some hundred events. A batch that is full, in events or messages, is taken at once; so is a single message
 * after a pause.
 */
export function createBatchQueue<M>(): BatchQueue<M> {
  let waiting: QueuedMessage<M>[] = [];
  let events = 0;
  let isClosed = false;
  let pausing: NodeJS.Timeout | undefined;
  let changed = Promise.withResolvers<void>();
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const isFull = (): boolean => events >= maxBatchEvents || waiting.length >= enoughMessages;
  const endPause = (): void => {
    clearTimeout(pausing);
    pausing = undefined;
  };
  const startPause = (forEvents: number): void => {
    endPause();
    const lastsMs = Math.min(Math.max(forEvents * pauseMs.perEvent, pauseMs.min), pauseMs.max);
    pausing = setTimeout(() => {
      pausing = undefined;
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
      if (!pausing) startPause(0);
      while (pausing && !isFull() && !isClosed) await changed.promise;
      if (isClosed) return [];
      const count = countForBatch(waiting);
      const taken = waiting.slice(0, count);
      waiting = waiting.slice(count);
      const before = events;
      for (const entry of taken) events -= sizeOf(entry);
      startPause(before - events);
      notify();
      return taken;
    },
    close: () => {
      isClosed = true;
      endPause();
      const left = waiting.map(({ message }) => message);
      waiting = [];
      events = 0;
      notify();
      return left;
    },
  };
}

function sizeOf({ events, rejects }: ReadMessage): number {
  // A message without events counts as one, so that the number of messages is bounded as well.
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
