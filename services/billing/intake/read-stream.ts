import { DeliverPolicy, jetstream, jetstreamManager, type ConsumerMessages, type JsMsg } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { ServiceError } from "#shared/process/errors.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import type { NatsLink } from "./nats.ts";

/** What the stream took from the first time on and before the second, in milliseconds since 1970; undefined: no end. */
export type StreamSpan = { fromMs: number | undefined; untilMs: number | undefined };

/** A message that the stream holds, and when the stream took it. */
export type StreamMessage = { data: Uint8Array; sequence: number; timeMs: number };

const pulledMessages = 64;
const silenceMs = 30_000;
const nanosPerMs = 1_000_000n;

/** When the stream took a message. */
export const timeMsOf = ({ timestampNanos }: Pick<JsMsg, "timestampNanos">): number =>
  Number(timestampNanos / nanosPerMs);

/**
 * The messages that a stream, by default that of usage, holds now, in their order, by a consumer of its own that
 * disturbs no other and vanishes afterwards. Ends at the message that was the last one at the start, or when the
 * caller is `gone`. Throws `unavailable` when NATS does not answer, or goes silent for 30 s.
 */
export async function* readStreamAgain(
  nats: NatsLink,
  span: StreamSpan,
  gone: AbortSignal,
  stream: string = usageStream,
): AsyncGenerator<StreamMessage> {
  const connection = nats.current();
  if (!connection) throw new ServiceError("unavailable", "NATS is not connected");
  try {
    yield* readFrom(connection, span, { gone, stream });
  } catch (error) {
    throw error instanceof ServiceError ? error : unreadable(error);
  }
}

function unreadable(cause?: unknown): ServiceError {
  return new ServiceError("unavailable", "the usage stream cannot be read now", cause);
}

async function* readFrom(
  connection: NatsConnection,
  { fromMs, untilMs }: StreamSpan,
  { gone, stream }: { gone: AbortSignal; stream: string },
): AsyncGenerator<StreamMessage> {
  const manager = await jetstreamManager(connection);
  const lastSequence = (await manager.streams.info(stream)).state.last_seq;
  const start =
    fromMs === undefined
      ? { deliver_policy: DeliverPolicy.All }
      : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(fromMs).toISOString() };
  const consumer = await jetstream(connection).consumers.get(stream, start);
  try {
    if ((await consumer.info(true)).num_pending === 0) return;
    const messages = await consumer.consume({ max_messages: pulledMessages, expires: 10_000 });
    yield* readUntil({ sequence: lastSequence, atMs: untilMs }, messages, gone);
  } finally {
    await consumer.delete().catch(() => false);
  }
}

type End = { sequence: number; atMs: number | undefined };

async function* readUntil(
  { sequence, atMs }: End,
  messages: ConsumerMessages,
  gone: AbortSignal,
): AsyncGenerator<StreamMessage> {
  const watch = endOnSilence(messages, gone);
  try {
    for await (const message of messages) {
      const { data, seq, info } = message;
      const timeMs = timeMsOf(message);
      if (seq > sequence || (atMs !== undefined && timeMs >= atMs)) return;
      watch.pause();
      yield { data, sequence: seq, timeMs };
      watch.resume();
      // Messages at the end may have been deleted: then the last sequence number never comes.
      if (seq === sequence || info.pending === 0) return;
    }
  } finally {
    watch.stop();
    await messages.close();
  }
  if (!gone.aborted) throw unreadable();
}

// The loop over messages waits for ever for a server that is away: it is ended from here.
function endOnSilence(messages: ConsumerMessages, gone: AbortSignal) {
  const end = (): void => void messages.close();
  let timer = setTimeout(end, silenceMs);
  gone.addEventListener("abort", end);
  if (gone.aborted) end();
  return {
    pause: () => clearTimeout(timer),
    resume: () => (timer = setTimeout(end, silenceMs)),
    stop: () => {
      clearTimeout(timer);
      gone.removeEventListener("abort", end);
    },
  };
}
