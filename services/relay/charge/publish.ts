import type { JetStreamClient } from "@nats-io/jetstream";
import type { MsgHdrs } from "@nats-io/transport-node";
import type { Logger } from "#shared/process/log.ts";
import { createActiveSet, type ActiveMember } from "#shared/process/active-set.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { encodeUsageBatch, usageHeaders, usageSubject } from "#shared/stores/usage-stream.ts";

/** The way of usage records to JetStream: gathered, published with an id, awaited off the path of the calls. */
export type Publisher = AsyncDisposable & {
  publish: (record: Uint8Array) => void;
  /** Publishes a record by itself; resolves when JetStream has it, or with false when this process ends before. */
  publishAlone: (record: Uint8Array) => Promise<boolean>;
  /** Records that no PubAck has confirmed. */
  waiting: () => number;
  /** How long the oldest of them waits; 0 without any. */
  oldestMs: () => number;
  /** Resolves when nothing waits any more, or after `timeoutMs`. */
  drain: (timeoutMs: number) => Promise<void>;
};

type Batch = ActiveMember & { id: string; headers: MsgHdrs; payload: Uint8Array; records: number; sinceMs: number };

export type PublishCounts = {
  /** How many records a PubAck has confirmed, and how long after the first try. */
  published: (records: number, seconds: number) => void;
  failed: () => void;
  dropped: () => void;
};

// A batch costs more than what is in it, here, in NATS and in billing. auth-quota hears of each charge before this.
const lingerMs = 50;
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
async function deliver(delivery: Delivery, { id, headers, payload, records }: Batch): Promise<boolean> {
  const triedAtMs = performance.now();
  for (let waitMs = retryMs.first; !delivery.isClosed; waitMs = Math.min(waitMs * 2, retryMs.most)) {
    try {
      const stream = delivery.client();
      if (!stream) throw new Error("NATS is not connected");
      await stream.publish(usageSubject, payload, { msgID: id, headers, timeout: ackTimeoutMs });
      faultPoint("relay: record published, settle not answered");
      noteOutcome(delivery);
      delivery.counts.published(records, (performance.now() - triedAtMs) / 1_000);
      return true;
    } catch (error) {
      delivery.counts.failed();
      noteOutcome(delivery, error);
      await new Promise<void>((resolve) => setTimeout(resolve, waitMs).unref());
    }
  }
  return false;
}

/** Makes what puts records into batches, numbered from 0. */
function numberBatches(relaySession: string): (records: readonly Uint8Array[], sinceMs: number) => Batch {
  let next = 0;
  return (records, sinceMs) => {
    const id = `${relaySession}:${next}`;
    next += 1;
    const headers = usageHeaders("relay", id, Date.now());
    const payload = encodeUsageBatch(records);
    return { activeIndex: -1, id, headers, payload, records: records.length, sinceMs };
  };
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
  /** Since when each of them waits. Beside them, for an object for each would be one more of every call. */
  let queuedSinceMs: number[] = [];
  let timer: NodeJS.Timeout | undefined;
  let waiting = 0;
  const batchOf = numberBatches(relaySession);
  const inFlight = createActiveSet<Batch>();
  const idle: (() => void)[] = [];

  const onDelivered = (batch: Batch): void => {
    inFlight.delete(batch);
    waiting -= batch.records;
    if (waiting === 0) for (const wake of idle.splice(0)) wake();
    // What is still being gathered has a timer; without one it waited for this place.
    if (!timer || queue.length >= maxBatchRecords) flush();
  };
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    while (queue.length > 0 && inFlight.size < maxInFlight) {
      const taken = queue.splice(0, maxBatchRecords);
      const [sinceMs = 0] = queuedSinceMs.splice(0, maxBatchRecords);
      const batch = batchOf(taken, sinceMs);
      inFlight.add(batch);
      deliver(delivery, batch)
        .catch((error: unknown) => log.error({ err: error }, "usage batch given up, the spool still holds it"))
        .finally(() => onDelivered(batch));
    }
  };
  return {
    publish: (record) => {
      if (waiting >= maxWaiting) return counts.dropped();
      queue.push(record);
      queuedSinceMs.push(performance.now());
      waiting += 1;
      if (queue.length >= maxBatchRecords) flush();
      else timer ??= setTimeout(flush, lingerMs);
    },
    publishAlone: (record) => deliver(delivery, batchOf([record], performance.now())),
    waiting: () => waiting,
    oldestMs: () => {
      if (waiting === 0) return 0;
      const sinceMs = [...inFlight].map((batch) => batch.sinceMs);
      return performance.now() - Math.min(...sinceMs, ...queuedSinceMs.slice(0, 1));
    },
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
      queuedSinceMs = [];
    },
  };
}
