import type { JetStreamClient } from "@nats-io/jetstream";
import type { Logger } from "#shared/log.ts";
import { encodeUsageBatch, usageSubject } from "#shared/usage-stream.ts";

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

type Delivery = {
  client: () => JetStreamClient | undefined;
  counts: PublishCounts;
  log: Logger;
  isFailing: boolean;
  isClosed: boolean;
};

/** Logs that acknowledgements stopped or came back, not every try in between. */
function noteOutcome(delivery: Delivery, error?: unknown): void {
  if (delivery.isFailing === (error !== undefined)) return;
  delivery.isFailing = !delivery.isFailing;
  const reason = error instanceof Error ? error.message : error;
  if (delivery.isFailing) delivery.log.warn({ reason }, "JetStream does not acknowledge usage, trying on");
  else delivery.log.info("JetStream acknowledges usage again");
}

/** Publishes until it is acknowledged: the same id and bytes on every try, so that JetStream drops what had arrived. */
async function deliver(delivery: Delivery, { id, payload, records }: Batch): Promise<void> {
  for (let waitMs = retryMs.first; !delivery.isClosed; waitMs = Math.min(waitMs * 2, retryMs.most)) {
    try {
      const stream = delivery.client();
      if (!stream) throw new Error("NATS is not connected");
      await stream.publish(usageSubject, payload, { msgID: id, timeout: ackTimeoutMs });
      noteOutcome(delivery);
      return delivery.counts.published(records);
    } catch (error) {
      delivery.counts.failed();
      noteOutcome(delivery, error);
      await new Promise<void>((resolve) => setTimeout(resolve, waitMs).unref());
    }
  }
}

/**
 * Makes a publisher. `client` gives the way to NATS while there is one; whenever there is none, records wait
 * here up to a bound. Beyond the bound they are dropped here, counted, and come from the spool and the outbox later.
 */
export function createPublisher(
  client: () => JetStreamClient | undefined,
  relaySession: string,
  counts: PublishCounts,
  log: Logger,
): Publisher {
  const delivery: Delivery = { client, counts, log, isFailing: false, isClosed: false };
  let queue: Uint8Array[] = [];
  let timer: NodeJS.Timeout | undefined;
  let waiting = 0;
  let nextBatch = 0;
  let inFlight = 0;
  const idle: (() => void)[] = [];

  const onDelivered = (records: number): void => {
    inFlight -= 1;
    waiting -= records;
    if (waiting === 0) for (const wake of idle.splice(0)) wake();
    flush();
  };
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    while (queue.length > 0 && inFlight < maxInFlight) {
      const records = queue.splice(0, maxBatchRecords);
      const batch = { id: `${relaySession}:${nextBatch}`, payload: encodeUsageBatch(records), records: records.length };
      nextBatch += 1;
      inFlight += 1;
      deliver(delivery, batch)
        .catch((error: unknown) => log.error({ err: error }, "usage batch given up, the spool still holds it"))
        .finally(() => onDelivered(batch.records));
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
      const timeout = Promise.withResolvers<void>();
      const timeoutTimer = setTimeout(timeout.resolve, timeoutMs);
      await Promise.race([new Promise<void>((resolve) => idle.push(resolve)), timeout.promise]);
      clearTimeout(timeoutTimer);
    },
    [Symbol.asyncDispose]: async () => {
      delivery.isClosed = true;
      clearTimeout(timer);
      queue = [];
    },
  };
}
