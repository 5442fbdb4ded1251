import type { Process } from "./clock.ts";
import { enter, outside } from "./clock.ts";
import { ask, asking, type Network } from "./network.ts";

/** A message that the stream holds. */
export type StoredMessage = {
  seq: number;
  data: Uint8Array;
  storedAtMs: number;
  isAcked: boolean;
  /** When it was last handed out; undefined: it waits. */
  deliveredAtMs: number | undefined;
};

/** Who takes messages: one process that pulls. */
export type Subscriber = {
  process: Process;
  from: string;
  deliver: (message: DeliveredMessage) => void;
  isOpen: boolean;
};

/** A message as a consumer sees it. */
export type DeliveredMessage = {
  seq: number;
  timestampNanos: bigint;
  data: Uint8Array;
  ack: () => void;
  nak: () => void;
};

/** The one usage stream with its one durable consumer, as JetStream keeps them. */
export type UsageStream = {
  isDown: boolean;
  isDeclared: boolean;
  messages: StoredMessage[];
  lastSeq: number;
  subscribers: Set<Subscriber>;
  ackWaitMs: number;
  /** Stores a message unless its id was seen lately; rejects when no acknowledgement came in time. */
  publish: (from: string, data: Uint8Array, options: { msgID: string; timeout: number }) => Promise<{ seq: number }>;
  declare: () => void;
  /** Hands out what waits or was not acknowledged in time. */
  pump: () => void;
  /** Loses messages stored in the last milliseconds, although it has acknowledged them. */
  loseSince: (storedAfterMs: number) => number;
  /** Loses everything: the stream and its consumer are gone until they are declared again. */
  deleteStore: () => void;
  subscribe: (subscriber: Subscriber) => void;
  /** Told of each acknowledgement that arrives. */
  onAck: (message: StoredMessage) => void;
  pending: () => number;
};

const place = "nats";
const dedupeWindowMs = 120_000;

export function createUsageStream(network: Network, onAck: (message: StoredMessage) => void): UsageStream {
  const seen = new Map<string, { atMs: number; seq: number }>();
  const store = (data: Uint8Array, id: string): number => {
    const known = seen.get(id);
    if (known && Date.now() - known.atMs < dedupeWindowMs) return known.seq;
    stream.lastSeq += 1;
    seen.set(id, { atMs: Date.now(), seq: stream.lastSeq });
    const seq = stream.lastSeq;
    stream.messages.push({ seq, data, storedAtMs: Date.now(), isAcked: false, deliveredAtMs: undefined });
    stream.pump();
    return seq;
  };
  const stream: UsageStream = {
    isDown: false,
    isDeclared: false,
    messages: [],
    lastSeq: 0,
    subscribers: new Set(),
    ackWaitMs: 10_000,
    onAck,
    publish: (from, data, { msgID, timeout }) =>
      ask({
        network,
        from,
        to: place,
        timeoutMs: timeout,
        serve: (reply, fail) => {
          if (stream.isDown) return;
          if (!stream.isDeclared) return fail(new Error("503 no responders"));
          reply({ seq: store(data, msgID) });
        },
      }),
    declare: () => void (stream.isDeclared = true),
    pump: () => pump(stream, network),
    loseSince: (storedAfterMs) => {
      const kept = stream.messages.filter(({ storedAtMs }) => storedAtMs < storedAfterMs);
      const lost = stream.messages.length - kept.length;
      stream.messages = kept;
      stream.lastSeq = kept.at(-1)?.seq ?? 0;
      seen.clear();
      return lost;
    },
    deleteStore: () => {
      stream.messages = [];
      stream.lastSeq = 0;
      stream.isDeclared = false;
      seen.clear();
    },
    subscribe: (subscriber) => {
      stream.subscribers.add(subscriber);
      pump(stream, network);
    },
    pending: () => stream.messages.filter(({ isAcked }) => !isAcked).length,
  };
  return stream;
}

function pump(stream: UsageStream, network: Network): void {
  if (stream.isDown || !stream.isDeclared) return;
  for (const subscriber of stream.subscribers) {
    if (!subscriber.isOpen || subscriber.process.state === "dead") stream.subscribers.delete(subscriber);
  }
  const takers = [...stream.subscribers].filter(({ from }) => !network.isCut(from, place));
  if (takers.length === 0) return;
  for (const message of stream.messages) {
    const isLate = message.deliveredAtMs !== undefined && Date.now() - message.deliveredAtMs >= stream.ackWaitMs;
    if (message.isAcked || (message.deliveredAtMs !== undefined && !isLate)) continue;
    handOut(stream, network, { message, taker: network.random.pick(takers) });
  }
}

type Delivery = { message: StoredMessage; taker: Subscriber };

function handOut(stream: UsageStream, network: Network, { message, taker }: Delivery): void {
  message.deliveredAtMs = Date.now();
  outside(() => setTimeout(() => pump(stream, network), stream.ackWaitMs));
  // Deliveries get lost more often than all else: a late provisional charge is the one to be afraid of.
  if (network.isLost() || (network.weather.lossChance > 0 && network.random.chance(0.1))) return;
  const answer = (arrive: () => void) => (): void => {
    const process = asking();
    process.onStep?.();
    if (process.state === "dead" || network.isLost() || network.isCut(taker.from, place)) return;
    outside(() => setTimeout(() => void (stream.isDown || arrive()), network.delayMs()));
  };
  const delivered: DeliveredMessage = {
    seq: message.seq,
    timestampNanos: BigInt(message.storedAtMs) * 1_000_000n,
    data: message.data,
    ack: answer(() => {
      // Its place may be gone, or another message may have it by now.
      if (message.isAcked || !stream.messages.includes(message)) return;
      message.isAcked = true;
      stream.onAck(message);
    }),
    nak: answer(() => {
      if (message.isAcked) return;
      message.deliveredAtMs = undefined;
      pump(stream, network);
    }),
  };
  outside(() => setTimeout(() => enter(taker.process, () => taker.deliver(delivered)), network.delayMs()));
}
