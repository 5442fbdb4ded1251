import { dayMs } from "#shared/process/clock.ts";
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  ReplayPolicy,
  RetentionPolicy,
  StorageType,
} from "@nats-io/jetstream";
import { nanos } from "@nats-io/transport-node";
import { usageStream } from "#shared/stores/usage-stream.ts";

/** Name of billing's durable consumer; all replicas share it. */
export const consumerName = "billing";

export type StreamSettings = { replicas: number; maxBytes: number; ackWaitMs: number };

/** A single server holds one copy, whatever is wanted: `cluster` is in what a server of a cluster says of itself. */
export function possibleReplicas(server: { cluster?: string } | undefined, wanted: number): number {
  return server?.cluster === undefined ? 1 : wanted;
}

/**
 * Declares the stream and billing's consumer; both stay as they are when they are as declared. A new consumer starts
 * at the first event that the stream holds: what was booked before is recognised.
 */
export async function declareStream(manager: JetStreamManager, settings: StreamSettings): Promise<void> {
  await declareUsageStream(manager, settings);
  await declareConsumer(manager, settings);
}

async function declareUsageStream(manager: JetStreamManager, { replicas, maxBytes }: StreamSettings): Promise<void> {
  const changeable = {
    subjects: ["usage.v1.>"],
    // Publishers must hear that the stream is full; dropping the oldest events would lose charges in silence. Booked
    // ones are removed before it comes to that, see trim.ts.
    discard: DiscardPolicy.New,
    max_bytes: maxBytes,
    max_age: nanos(14 * dayMs),
    // Spares work, no more: that a charge happens once is the ledger's unique index.
    duplicate_window: nanos(120_000),
    num_replicas: replicas,
  };
  const found = await ifFound(manager.streams.info(usageStream));
  if (!found) {
    const fixed = { name: usageStream, storage: StorageType.File, retention: RetentionPolicy.Limits };
    await manager.streams.add({ ...fixed, ...changeable });
  } else if (differs(found.config, changeable)) {
    await manager.streams.update(usageStream, { ...found.config, ...changeable });
  }
}

async function declareConsumer(manager: JetStreamManager, { ackWaitMs }: StreamSettings): Promise<void> {
  const changeable = {
    ack_wait: nanos(ackWaitMs),
    // Four pulls of one process; with 64 KiB messages that bounds what all replicas hold in memory to 64 MiB.
    max_ack_pending: 1_024,
    // Without end: what cannot be booked goes to quarantine, never into oblivion.
    max_deliver: -1,
  };
  const found = await ifFound(manager.consumers.info(usageStream, consumerName));
  if (!found) {
    const fixed = {
      durable_name: consumerName,
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.All,
      replay_policy: ReplayPolicy.Instant,
    };
    await manager.consumers.add(usageStream, { ...fixed, ...changeable });
  } else if (differs(found.config, changeable)) {
    await manager.consumers.update(usageStream, consumerName, changeable);
  }
}

async function ifFound<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Whether JetStream says that the stream or the consumer does not exist. */
export function isMissing(error: unknown): boolean {
  return error instanceof JetStreamApiError && (error.code === 10_059 || error.code === 10_014);
}

/** Whether a stream or a consumer is not as declared. */
export function differs(found: object, declared: Record<string, unknown>): boolean {
  const values = found as Record<string, unknown>;
  return Object.entries(declared).some(([name, value]) => JSON.stringify(values[name]) !== JSON.stringify(value));
}
