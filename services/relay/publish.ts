import type { JetStreamClient } from "@nats-io/jetstream";
import type { Logger } from "#shared/log.ts";
import { usageSubject } from "#shared/usage-stream.ts";

/** The way of usage records to JetStream: gathered, published with an id, awaited off the path of the calls. */
export type Publisher = AsyncDisposable & {
  publish: (record: Uint8Array) => void;
  /** Records that no PubAck has confirmed. */
  waiting: () => number;
  /** Resolves when nothing waits any more, or after `timeoutMs`. */
  drain: (timeoutMs: number) => Promise<void>;
};

type Batch = { id: string; payload: Uint8Array; records: number };

export type PublishCounts = { published: (records: number) => void; failed: () => void; dropped: () => void };

const lingerMs = 20;
const maxBatchRecords = 256;
const maxWaiting = 100_000;
const maxInFlight = 4;
const ackTimeoutMs = 5_000;
const retryMs = { first: 100, most: 5_000 };

/** Joins encoded records into one encoded UsageBatch: each is field 1, length-delimited, so none is encoded twice. */
export function encodeBatch(records: readonly Uint8Array[]): Uint8Array {
  const pieces: Uint8Array[] = [];
  for (const record of records) {
    const head = [0x0a];
    for (let rest = record.length; ; rest >>>= 7) {
      head.push(rest > 127 ? (rest & 127) | 128 : rest);
      if (rest <= 127) break;
    }
    pieces.push(Uint8Array.from(head), record);
  }
  return Buffer.concat(pieces);
}

/**
 * Makes a publisher. `client` may still be connecting; until it is there, and whenever NATS is away, records wait here
 * up to a bound. Beyond the bound they are dropped here, counted, and come from the spool and the outbox later.
 */
export function createPublisher(
  client: Promise<JetStreamClient>,
  relaySession: string,
  counts: PublishCounts,
  log: Logger,
): Publisher {
  let queue: Uint8Array[] = [];
  let timer: NodeJS.Timeout | undefined;
  let waiting = 0;
  let nextBatch = 0;
  let inFlight = 0;
  let isClosed = false;
  const idle: (() => void)[] = [];

  let isFailing = false;
  /** Logs that acknowledgements stopped or came back, not every try in between. */
  const note = (error?: unknown): void => {
    if (isFailing === (error !== undefined)) return;
    isFailing = !isFailing;
    const reason = error instanceof Error ? error.message : error;
    if (isFailing) log.warn({ reason }, "JetStream does not acknowledge usage, trying on");
    else log.info("JetStream acknowledges usage again");
  };
  const deliver = async ({ id, payload, records }: Batch): Promise<void> => {
    const stream = await client;
    for (let waitMs = retryMs.first; !isClosed; waitMs = Math.min(waitMs * 2, retryMs.most)) {
      try {
        // The same id and bytes on every try, so that JetStream itself drops what arrived but was not acknowledged.
        await stream.publish(usageSubject, payload, { msgID: id, timeout: ackTimeoutMs });
        note();
        return counts.published(records);
      } catch (error) {
        counts.failed();
        note(error);
        await new Promise<void>((resolve) => setTimeout(resolve, waitMs).unref());
      }
    }
  };
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    while (queue.length > 0 && inFlight < maxInFlight) {
      const records = queue.splice(0, maxBatchRecords);
      const batch = { id: `${relaySession}:${nextBatch}`, payload: encodeBatch(records), records: records.length };
      nextBatch += 1;
      inFlight += 1;
      void deliver(batch)
        .catch((error: unknown) => log.error({ err: error }, "usage batch given up, the spool still holds it"))
        .finally(() => {
          inFlight -= 1;
          waiting -= batch.records;
          if (waiting === 0) for (const wake of idle.splice(0)) wake();
          flush();
        });
    }
  };
  return {
    publish: (record) => {
      if (waiting >= maxWaiting) return counts.dropped();
      queue.push(record);
      waiting += 1;
      if (queue.length >= maxBatchRecords) flush();
      else timer ??= setTimeout(flush, lingerMs);
    },
    waiting: () => waiting,
    drain: async (timeoutMs) => {
      flush();
      if (waiting === 0) return;
      let timeout: NodeJS.Timeout | undefined;
      await Promise.race([
        new Promise<void>((resolve) => idle.push(resolve)),
        new Promise<void>((resolve) => (timeout = setTimeout(resolve, timeoutMs))),
      ]);
      clearTimeout(timeout);
    },
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      clearTimeout(timer);
      queue = [];
    },
  };
}
