import type { DeliveredMessage, UsageStream } from "./stream.ts";
import { ask, asking, type Network } from "./network.ts";

// Takes the place of @nats-io/jetstream for billing: the same names, answered by the stream of the simulated world.
// See stand-ins.ts.

/** A connection of one process to NATS. */
export type SimulatedConnection = { stream: UsageStream; network: Network; from: string };

export const AckPolicy = { Explicit: "explicit" };
export const DeliverPolicy = { All: "all" };
export const DiscardPolicy = { New: "new" };
export const ReplayPolicy = { Instant: "instant" };
export const RetentionPolicy = { Limits: "limits" };
export const StorageType = { File: "file" };

/** What JetStream answers when it refuses. */
export class JetStreamApiError extends Error {
  readonly code = 10_059;
}

const requestTimeoutMs = 5_000;

function request<T>({ stream, network, from }: SimulatedConnection, work: () => T): Promise<T> {
  return ask<T>({
    network,
    from,
    to: "nats",
    timeoutMs: requestTimeoutMs,
    serve: (reply, fail) => {
      if (stream.isDown) return;
      try {
        reply(work());
      } catch (error) {
        fail(error);
      }
    },
  });
}

function info({ stream }: SimulatedConnection): object {
  if (!stream.isDeclared) throw new JetStreamApiError("stream not found");
  const waiting = stream.messages.filter(({ deliveredAtMs }) => deliveredAtMs === undefined).length;
  const state = { last_seq: stream.lastSeq, first_seq: stream.messages[0]?.seq ?? 0, messages: stream.messages.length };
  const delivered = stream.messages.findLast(({ deliveredAtMs }) => deliveredAtMs !== undefined)?.seq ?? 0;
  const unacked = stream.messages.find(({ isAcked }) => !isAcked)?.seq ?? stream.lastSeq + 1;
  return {
    config: { max_bytes: 0 },
    state,
    num_pending: waiting,
    num_ack_pending: stream.pending() - waiting,
    delivered: { stream_seq: delivered },
    ack_floor: { stream_seq: unacked - 1 },
  };
}

// Declared settings are not looked at: `update` has nothing to do.
export function jetstreamManager(connection: SimulatedConnection): Promise<object> {
  const ask_ = (work: () => unknown) => () => request(connection, work);
  const declare = ask_(() => connection.stream.declare());
  const describe = ask_(() => info(connection));
  return Promise.resolve({
    streams: { info: describe, add: declare, update: declare },
    consumers: { info: describe, add: declare, update: declare },
  });
}

export function jetstream(connection: SimulatedConnection) {
  const { stream, from } = connection;
  return {
    publish: (_subject: string, data: Uint8Array, options: { msgID: string; timeout: number }) =>
      stream.publish(from, data, options),
    consumers: { get: () => Promise.resolve({ consume: () => Promise.resolve(consume(connection)) }) },
  };
}

/** The messages that come, until it is closed. */
function consume({ stream, from }: SimulatedConnection) {
  const waiting: DeliveredMessage[] = [];
  let arrived = Promise.withResolvers<void>();
  const subscriber = {
    process: asking(),
    from,
    isOpen: true,
    deliver: (message: DeliveredMessage) => {
      if (!subscriber.isOpen) return;
      waiting.push(message);
      arrived.resolve();
      arrived = Promise.withResolvers<void>();
    },
  };
  stream.subscribe(subscriber);
  return {
    close: () => {
      subscriber.isOpen = false;
      arrived.resolve();
      return Promise.resolve();
    },
    async *[Symbol.asyncIterator]() {
      while (subscriber.isOpen) {
        const message = waiting.shift();
        if (message) yield message;
        else await arrived.promise;
      }
    },
  };
}
