import {
  type ConsumerInfo,
  type ConsumerMessages,
  jetstream,
  jetstreamManager,
  type JetStreamManager,
  type JsMsg,
  type StreamInfo,
} from "@nats-io/jetstream";
import type { NatsConnection, Subscription } from "@nats-io/transport-node";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { bookBatch, type BookingDeps } from "./book.ts";
import type { Health } from "#shared/process/health.ts";
import { createBatchQueue, type BatchQueue, type QueuedMessage } from "./batch-queue.ts";
import type { NatsLink } from "./nats.ts";
import type { Proofs } from "../records/proofs.ts";
import { readMessage, type ReadEvent, type ReadMessage } from "../records/read-event.ts";
import { timeMsOf } from "./read-stream.ts";
import { createStop, pause, type Stop, unlessStopped } from "#shared/process/stop.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { consumerName, declareStream, isMissing, possibleReplicas, type StreamSettings } from "./stream.ts";
import { markKeysUnpushed } from "../store/funds.ts";
import type { Posting, BalancePusher } from "./push-balances.ts";
import type { LedgerRepair } from "./repair-ledger.ts";
import { LedgerLostError, type StreamMark } from "../store/ledger-epoch.ts";
import { trimStream } from "./trim.ts";

export type ConsumerDeps = BookingDeps & {
  nats: NatsLink;
  pusher: BalancePusher;
  health: Health;
  stream: StreamSettings;
  proofs: Proofs;
  repair: LedgerRepair;
};

const pullMessages = 128;
const checkMs = 2_000;
const retryMs = { first: 100, max: 5_000 };
const maxPushes = 4;

/**
 * Books the events of the stream until disposal, which finishes the batch under way and returns the rest to the stream.
 * NATS and PostgreSQL may be down at any time for any length: it retries for ever, with a bounded number of events in
 * memory.
 */
export function startConsumer(deps: ConsumerDeps): AsyncDisposable {
  const stop = createStop();
  const queue = createBatchQueue<JsMsg>();
  const late: JsMsg[] = [];
  const receiving = receive({ deps, queue, stop, late });
  const booking = bookAll(deps, queue, stop);
  return {
    [Symbol.asyncDispose]: async () => {
      stop.stop();
      const left = queue.close();
      // Only after the server knows that this process takes no more: returned messages would be sent here again.
      await receiving;
      for (const message of [...left, ...late]) redeliver(message);
      for (const message of await booking) redeliver(message);
    },
  };
}

type ReceiveContext = {
  deps: ConsumerDeps;
  queue: BatchQueue<JsMsg>;
  stop: Stop;
  /** Messages received after the stop. */
  late: JsMsg[];
};

async function receive(context: ReceiveContext): Promise<void> {
  const { deps, stop } = context;
  const { nats, health, log } = deps;
  for (let waitMs = retryMs.first; !stop.isStopped(); waitMs = Math.min(2 * waitMs, retryMs.max)) {
    const connection = nats.current();
    try {
      if (!connection) throw new Error("NATS is not connected");
      const hadMessages = await receiveFrom(connection, context);
      if (hadMessages) waitMs = retryMs.first;
    } catch (error) {
      health.set("usage stream", String(error));
      if (connection) log.warn({ err: error }, "failed to read the usage stream");
    }
    await pause(waitMs, stop);
  }
}

// One run of the consumer: ends at the stop, when the connection closes, or when stream or consumer are missing.
async function receiveFrom(connection: NatsConnection, context: ReceiveContext): Promise<boolean> {
  const { deps, queue, stop, late } = context;
  const manager = await jetstreamManager(connection);
  const replicas = possibleReplicas(connection.info, deps.stream.replicas);
  if (replicas < deps.stream.replicas) {
    deps.log.warn({ wanted: deps.stream.replicas, replicas }, "NATS is a single server: usage events have one copy");
  }
  await declareStream(manager, { ...deps.stream, replicas });
  deps.repair.readsFrom(await markOf(manager));
  const consumer = await jetstream(connection).consumers.get(usageStream, consumerName);
  const messages = await consumer.consume({ max_messages: pullMessages, expires: 10_000 });
  deps.health.set("usage stream", undefined);
  deps.log.info({ stream: usageStream, consumer: consumerName }, "reading the usage stream");
  const end = createStop();
  const forget = stop.onStop(end.stop);
  const leaving = end.stopped.then(() => leave(messages, manager));
  const watching = watch({ manager, deps, end });
  let hadMessages = false;
  try {
    for await (const message of messages) {
      hadMessages = true;
      if (message.redelivered) deps.metrics.redeliveries.inc();
      if (stop.isStopped()) late.push(message);
      else await queue.put({ message, ...read(deps, message) });
    }
  } finally {
    forget();
    end.stop();
    await leaving;
    await watching;
  }
  return hadMessages;
}

const read = ({ clock, proofs }: ConsumerDeps, message: JsMsg): ReadMessage =>
  readMessage(message.data, message.seq, clock.nowMs(), proofs(timeMsOf(message)));

// Read after the stream, which may be declared anew at this moment.
async function markOf(manager: JetStreamManager): Promise<StreamMark> {
  const { created } = await manager.streams.info(usageStream);
  const { ack_floor: booked } = await manager.consumers.info(usageStream, consumerName);
  return { stream: created, sequence: BigInt(booked.stream_seq) };
}

const leaveMs = 2_000;

/**
 * Ends the delivery of messages. Messages that the server has already sent still arrive: the client's own close drops
 * them, and they would wait for the acknowledgement timeout. So would the first message that is returned while the
 * server (2.9) still has a pull request of this process, which it drops when it is queried for the consumer.
 */
async function leave(messages: ConsumerMessages & { sub?: Subscription }, manager: JetStreamManager): Promise<void> {
  const limit = createStop();
  const left = Promise.resolve(messages.sub?.drain()).then(() => manager.consumers.info(usageStream, consumerName));
  await Promise.race([left.catch(() => undefined), pause(leaveMs, limit)]);
  limit.stop();
  await messages.close();
}

type WatchContext = { manager: JetStreamManager; deps: ConsumerDeps; end: Stop };

// A deleted stream or consumer, or a server that came back without its data, is not reported by itself.
async function watch(context: WatchContext): Promise<void> {
  const { end } = context;
  while (!end.isStopped()) {
    await pause(checkMs, end);
    // A server that does not answer must not block the stop.
    if (!end.isStopped()) await unlessStopped(checkStream(context), end);
  }
}

async function checkStream({ manager, deps, end }: WatchContext): Promise<void> {
  const { metrics, health, log } = deps;
  try {
    const found = await manager.consumers.info(usageStream, consumerName);
    metrics.lagMessages.set(found.num_pending);
    metrics.unackedMessages.set(found.num_ack_pending);
    const kept = await manager.streams.info(usageStream);
    metrics.streamBytes.set(kept.state.bytes);
    metrics.streamMaxBytes.set(Math.max(0, kept.config.max_bytes));
    metrics.oldestUnacked.set(await oldestUnackedSeconds(manager, kept, found, deps.clock.nowMs()));
    const removed = await trimStream(manager, kept, found);
    if (removed > 0) log.info({ removed }, "usage stream nearly full: removed its oldest booked messages");
    health.set("usage stream", undefined);
  } catch (error) {
    if (end.isStopped()) return;
    health.set("usage stream", String(error));
    if (!isMissing(error)) return;
    log.error({ err: error }, "usage stream or its consumer missing, declaring it again");
    end.stop();
  }
}

async function oldestUnackedSeconds(
  manager: JetStreamManager,
  { state }: StreamInfo,
  { num_pending: pending, num_ack_pending: unacked, ack_floor: booked }: ConsumerInfo,
  nowMs: number,
): Promise<number> {
  if (pending + unacked === 0) return 0;
  const seq = Math.max(state.first_seq, booked.stream_seq + 1);
  const oldest = await manager.streams.getMessage(usageStream, { seq });
  return oldest ? Math.max(0, nowMs - oldest.time.getTime()) / 1_000 : 0;
}

/** Resolves at the stop with the messages not booked. */
async function bookAll(deps: ConsumerDeps, queue: BatchQueue<JsMsg>, stop: Stop): Promise<JsMsg[]> {
  const pushes = new Set<Promise<void>>();
  const unbooked: JsMsg[] = [];
  while (!stop.isStopped()) {
    const { messages, posting } = await bookNext(deps, queue, stop);
    if (!posting) {
      unbooked.push(...messages);
      continue;
    }
    faultPoint("billing: batch committed, auth-quota not told");
    const pushing = pushAndAcknowledge(deps, posting, messages).finally(() => pushes.delete(pushing));
    pushes.add(pushing);
    // A slow auth-quota slows booking down instead of filling memory.
    if (pushes.size >= maxPushes) await Promise.race(pushes);
  }
  await Promise.all(pushes);
  return unbooked;
}

/** Without its events, which would otherwise outlive the collector's young generation. */
type BookedBatch = { messages: JsMsg[]; posting: Posting | undefined };

async function bookNext(deps: ConsumerDeps, queue: BatchQueue<JsMsg>, stop: Stop): Promise<BookedBatch> {
  const batch = await queue.take();
  const messages = batch.map(({ message }) => message);
  if (batch.length === 0) return { messages, posting: undefined };
  const posting = await bookUntilDone(deps, batch, stop);
  return { messages, posting };
}

// A transaction of a thousand events takes some hundred milliseconds.
const slowMs = 2_000;
const firstRids = (events: readonly ReadEvent[]): string[] => events.slice(0, 10).map(({ event }) => event.rid);

async function bookUntilDone(
  deps: ConsumerDeps,
  batch: readonly QueuedMessage<JsMsg>[],
  stop: Stop,
): Promise<Posting | undefined> {
  const { metrics, health, log } = deps;
  const events = batch.flatMap((waiting) => waiting.events);
  const rejects = batch.flatMap((waiting) => waiting.rejects);
  metrics.batchEvents.observe(events.length + rejects.length);
  const sequence = batch.reduce((highest, { message }) => Math.max(highest, message.seq), 0);
  for (let waitMs = retryMs.first; ; waitMs = Math.min(2 * waitMs, retryMs.max)) {
    try {
      const startedAtMs = performance.now();
      const mark = deps.repair.mark();
      const posting = await bookBatch(deps, { events, rejects }, mark && { known: mark, sequence: BigInt(sequence) });
      deps.repair.hasBooked(BigInt(sequence));
      const tookMs = Math.round(performance.now() - startedAtMs);
      if (tookMs > slowMs) log.warn({ rids: firstRids(events), events: events.length, tookMs }, "slow booking");
      health.set("booking", undefined);
      return posting;
    } catch (error) {
      if (error instanceof LedgerLostError) await deps.repair.open(error.loss).catch(() => undefined);
      metrics.bookFailures.inc();
      health.set("booking", String(error));
      log.error({ err: error, rids: firstRids(events), events: events.length }, "failed to book a batch, retrying");
    }
    if (stop.isStopped()) return undefined;
    await pause(waitMs, stop);
  }
}

// Money invariant I9: a message is acknowledged only here, after bookBatch has returned, which is after the commit.
// The push comes first: when a process dies between the two, the next one pushes again.
async function pushAndAcknowledge(deps: ConsumerDeps, posting: Posting, messages: readonly JsMsg[]): Promise<void> {
  const { pusher } = deps;
  const isPushed = await pusher.push(posting);
  faultPoint("billing: auth-quota told, batch not acknowledged");
  const isSettled = isPushed || (await recordUnpushed(deps, posting));
  for (const message of messages) {
    if (isSettled) answer(() => message.ack());
    else redeliver(message);
  }
}

// Accounts have a version that is compared, and calls are in auth-quota's outbox; but for a call that auth-quota never
// received, nothing else would push the key's spending again.
async function recordUnpushed({ pool, log }: ConsumerDeps, { keys }: Posting): Promise<boolean> {
  try {
    await markKeysUnpushed(
      pool,
      keys.map(({ keyId }) => keyId),
    );
    return true;
  } catch (error) {
    log.warn({ err: error }, "failed to record unpushed keys; the events will be redelivered");
    return false;
  }
}

// So that another process need not wait for the acknowledgement timeout.
function redeliver(message: JsMsg): void {
  answer(() => message.nak());
}

// Without a connection, the message is redelivered and found to be booked.
function answer(send: () => void): void {
  try {
    send();
  } catch {
    // The connection is closed; a new one is being made.
  }
}
