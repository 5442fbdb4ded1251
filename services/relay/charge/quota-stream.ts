import type { ClientDuplexStream } from "@grpc/grpc-js";
import type { SessionAnswer } from "./session-wire.ts";

/** Takes what was encoded already. */
export type Stream = ClientDuplexStream<Buffer, SessionAnswer>;

/** The stream to auth-quota, and the one that is to take its place. */
export type QuotaStreams = {
  /** Where operations go; undefined: there is none now. */
  stream: Stream | undefined;
  /** Whether the server has answered on it, and since when none has. */
  isProven: boolean;
  unprovenAt: number;
  /** To another replica than that of `stream`, which stops. */
  next: Stream | undefined;
  /** Whether `next` has answered: nothing more goes out until `stream` has answered what it was sent. */
  isMoving: boolean;
};

/** What is done with the streams by who has something to send on them. */
export type StreamUse = {
  open: () => Stream;
  isClosed: () => boolean;
  /** Sends a batch without operations on the stream: its answer proves it before anything depends on it. */
  prove: (stream: Stream) => void;
  take: (answer: SessionAnswer) => void;
  /** Whether batches are with the server, unanswered. */
  isAnswerDue: () => boolean;
  /** `stream` was lost with what was unanswered on it. */
  onLost: (error?: Error) => void;
  /** There is another `stream` to send on. */
  onReady: () => void;
  /** The server has answered on a stream for the first time. */
  onProven: (isMoved: boolean) => void;
};

// Longer waits would leave a replica unused that came back a moment ago.
const reconnectMs = { first: 50, most: 250 };

type Keeper = {
  streams: QuotaStreams;
  use: StreamUse;
  /** Before the next try to open a stream, and whether one is on its way. */
  waitMs: number;
  isPlanned: boolean;
};

/**
 * Keeps one stream open. When its server says that it stops, another one is opened beside it and proven, and only then
 * takes its place, once the old one has answered what it was sent: so what is sent later is decided later.
 */
export function keepStream(streams: QuotaStreams, use: StreamUse): void {
  open({ streams, use, waitMs: reconnectMs.first, isPlanned: false });
}

function open(keeper: Keeper): void {
  const { streams, use } = keeper;
  if (use.isClosed() || streams.next || keeper.isPlanned) return;
  const stream = use.open();
  const isBeside = streams.stream !== undefined;
  if (isBeside) streams.next = stream;
  else streams.stream = stream;
  let isOver = false;
  const onOver = (error?: Error): void => {
    if (isOver) return;
    isOver = true;
    if (!use.isClosed()) lose(keeper, stream, error);
  };
  stream.on("error", onOver);
  stream.on("end", () => onOver());
  stream.on("close", () => onOver());
  stream.on("data", (answer: SessionAnswer) => {
    const isInUse = stream === streams.stream || stream === streams.next;
    if (!isOver && isInUse) take(keeper, stream, answer);
  });
  use.prove(stream);
  if (!isBeside) use.onReady();
}

function openLater(keeper: Keeper, error?: Error): void {
  if (keeper.isPlanned) return;
  keeper.isPlanned = true;
  const openPlanned = (): void => {
    keeper.isPlanned = false;
    open(keeper);
  };
  // A replica that stops ends the stream in good order, and another one is there.
  if (error === undefined && keeper.waitMs === reconnectMs.first) setImmediate(openPlanned);
  else setTimeout(openPlanned, keeper.waitMs);
  keeper.waitMs = Math.min(keeper.waitMs * 2, reconnectMs.most);
}

function take(keeper: Keeper, stream: Stream, answer: SessionAnswer): void {
  const { streams, use } = keeper;
  if (stream === streams.next) streams.isMoving = true;
  else if (!streams.isProven) {
    streams.isProven = true;
    use.onProven(false);
  }
  // Else tries to leave a replica that stops would know no pause.
  if (!answer.isStopping) keeper.waitMs = reconnectMs.first;
  use.take(answer);
  if (stream === streams.stream && answer.isStopping) open(keeper);
  if (streams.isMoving && !use.isAnswerDue()) move(keeper);
}

function move({ streams, use }: Keeper): void {
  const { stream: old, next } = streams;
  Object.assign(streams, { stream: next, next: undefined, isMoving: false });
  old?.end();
  use.onProven(true);
  use.onReady();
}

function lose(keeper: Keeper, stream: Stream, error?: Error): void {
  const { streams, use } = keeper;
  if (stream === streams.next) {
    Object.assign(streams, { next: undefined, isMoving: false });
    return openLater(keeper, error ?? new Error("ended"));
  }
  // One that was left in good order.
  if (stream !== streams.stream) return;
  const { next, isMoving: isNextProven } = streams;
  Object.assign(streams, { stream: next, next: undefined, isMoving: false });
  use.onLost(error);
  if (streams.isProven && !isNextProven) streams.unprovenAt = performance.now();
  streams.isProven = isNextProven;
  if (!next) return openLater(keeper, error);
  use.prove(next);
  use.onReady();
}
