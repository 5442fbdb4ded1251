import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { Client, ClientDuplexStream } from "@grpc/grpc-js";
import {
  AuthQuotaService,
  ResultSchema,
  SessionRequestSchema,
  Verdict,
  type OperationSchema,
  type Result,
  type SessionRequest,
  type SessionResponse,
} from "#proto/authquota/v1/authquota_pb.ts";
import { grpcService } from "#shared/grpc.ts";
import type { Logger } from "#shared/log.ts";

type Operation = MessageInitShape<typeof OperationSchema>;

/** The relay's line to auth-quota: operations go out in batches, each promise resolves with its result. */
export type QuotaSession = AsyncDisposable & {
  /**
   * Sends an operation that somebody waits for. Resolves with VERDICT_UNAVAILABLE when no answer came within the
   * deadline, over however many streams; asking again with the same rid is always safe.
   */
  ask: (operation: Operation) => Promise<Result>;
  /** Sends an operation that nobody waits for; it is sent again until it is answered. */
  tell: (operation: Operation) => Promise<Result>;
  /** Whether a stream is open on which auth-quota has answered. */
  isConnected: () => boolean;
  /** Operations that have not been answered. */
  queued: () => number;
};

type Waiting = {
  operation: Operation;
  resolve: (result: Result) => void;
  /** Monotonic milliseconds after which the caller has given up; infinite for operations that must arrive. */
  deadlineAt: number;
};

export type SessionLimits = { askTimeoutMs: number; lingerMs: number; maxQueued: number };

export const defaultLimits: SessionLimits = { askTimeoutMs: 2_000, lingerMs: 25, maxQueued: 50_000 };

const maxBatch = 512;
const maxInFlight = 256;
const heartbeatMs = 5_000;
const retryMs = 500;
const sweepMs = 100;

const unavailable = create(ResultSchema, { verdict: Verdict.UNAVAILABLE });

type Stream = ClientDuplexStream<SessionRequest, SessionResponse>;

type State = {
  relaySession: string;
  limits: SessionLimits;
  stream: Stream | undefined;
  batch: bigint;
  queue: Waiting[];
  inFlight: Map<bigint, Waiting[]>;
  /** Operations that could not be decided and wait for a moment before they are sent again. */
  retrying: Set<Waiting>;
  /** Whether the server has answered on the stream. */
  isProven: boolean;
  isFlushPlanned: boolean;
  lingerTimer: NodeJS.Timeout | undefined;
  lastSentAt: number;
  isClosed: boolean;
};

function flush(state: State): void {
  state.isFlushPlanned = false;
  clearTimeout(state.lingerTimer);
  state.lingerTimer = undefined;
  while (state.stream && state.queue.length > 0 && state.inFlight.size < maxInFlight) {
    const waiting = state.queue.splice(0, maxBatch);
    state.batch += 1n;
    state.inFlight.set(state.batch, waiting);
    const operations = waiting.map(({ operation }) => operation);
    state.stream.write(
      create(SessionRequestSchema, { relaySession: state.relaySession, batch: state.batch, operations }),
    );
    state.lastSentAt = performance.now();
  }
}

function heartbeat(state: State): void {
  if (!state.stream || performance.now() - state.lastSentAt < heartbeatMs) return;
  state.batch += 1n;
  state.inFlight.set(state.batch, []);
  state.stream.write(create(SessionRequestSchema, { relaySession: state.relaySession, batch: state.batch }));
  state.lastSentAt = performance.now();
}

/** Gives up on operations whose callers have: they are answered, and their results, should they come, are dropped. */
function expire(state: State): void {
  const now = performance.now();
  const isLive = (waiting: Waiting): boolean => {
    if (waiting.deadlineAt > now) return true;
    waiting.resolve(unavailable);
    return false;
  };
  state.queue = state.queue.filter(isLive);
  for (const waiting of state.inFlight.values()) for (const one of waiting) isLive(one);
}

function takeResults(state: State, { batch, results }: SessionResponse): void {
  const waiting = state.inFlight.get(batch);
  if (!waiting) return;
  state.inFlight.delete(batch);
  waiting.forEach((one, index) => {
    const result = results[index] ?? unavailable;
    const mustArrive = one.deadlineAt === Infinity;
    if (mustArrive && result.verdict === Verdict.UNAVAILABLE && !state.isClosed) retryLater(state, one);
    else one.resolve(result);
  });
  if (state.queue.length > 0) flush(state);
}

function retryLater(state: State, waiting: Waiting): void {
  state.retrying.add(waiting);
  setTimeout(() => {
    if (state.retrying.delete(waiting)) enqueue(state, waiting);
  }, retryMs);
}

function enqueue(state: State, waiting: Waiting): void {
  if (state.queue.length >= state.limits.maxQueued) return waiting.resolve(unavailable);
  state.queue.push(waiting);
  // Somebody waits: out at the end of this turn of the event loop. Nobody waits: gather for a moment, then ride along.
  if (waiting.deadlineAt !== Infinity) {
    if (!state.isFlushPlanned) setImmediate(flush, state);
    state.isFlushPlanned = true;
  } else state.lingerTimer ??= setTimeout(flush, state.limits.lingerMs, state);
}

const unanswered = ({ queue, inFlight, retrying }: State): Waiting[] => [
  ...queue,
  ...[...inFlight.values()].flat(),
  ...retrying,
];

const reconnectMs = { first: 50, most: 1_000 };

/** Keeps one stream open; what a broken stream left unanswered is sent again on the next one, in the same order. */
function connect(state: State, channel: Client, log: Logger): void {
  const path = grpcService(AuthQuotaService)["session"];
  let waitMs = reconnectMs.first;
  const open = (): void => {
    if (state.isClosed || !path) return;
    const stream: Stream = channel.makeBidiStreamRequest(
      path.path,
      path.requestSerialize as (request: SessionRequest) => Buffer,
      path.responseDeserialize as (bytes: Buffer) => SessionResponse,
    );
    let isOver = false;
    const onOver = (error?: Error): void => {
      if (isOver) return;
      isOver = true;
      if (state.stream === stream) state.stream = undefined;
      state.isProven = false;
      if (state.isClosed) return;
      if (error) log.warn({ err: error }, "auth-quota stream broke");
      state.queue = [...[...state.inFlight.values()].flat(), ...state.queue];
      state.inFlight.clear();
      setTimeout(open, waitMs);
      waitMs = Math.min(waitMs * 2, reconnectMs.most);
    };
    stream.on("error", onOver);
    stream.on("end", () => onOver());
    stream.on("close", () => onOver());
    stream.on("data", (response: SessionResponse) => {
      if (isOver) return;
      waitMs = reconnectMs.first;
      state.isProven = true;
      takeResults(state, response);
    });
    state.stream = stream;
    // The first batch is a heartbeat: its answer proves the stream before anything depends on it.
    state.lastSentAt = -Infinity;
    heartbeat(state);
    flush(state);
  };
  open();
}

/** Opens the session of this relay process; it connects in the background and again for ever. */
export function openQuotaSession(
  channel: Client,
  relaySession: string,
  log: Logger,
  limits: SessionLimits = defaultLimits,
): QuotaSession {
  const state: State = {
    relaySession,
    limits,
    stream: undefined,
    batch: 0n,
    queue: [],
    inFlight: new Map(),
    retrying: new Set(),
    isProven: false,
    isFlushPlanned: false,
    lingerTimer: undefined,
    lastSentAt: 0,
    isClosed: false,
  };
  connect(state, channel, log);
  const timer = setInterval(() => {
    expire(state);
    heartbeat(state);
    flush(state);
  }, sweepMs);
  const send = (operation: Operation, deadlineAt: number): Promise<Result> =>
    new Promise((resolve) => enqueue(state, { operation, resolve, deadlineAt }));
  return {
    ask: (operation) => send(operation, performance.now() + limits.askTimeoutMs),
    tell: (operation) => send(operation, Infinity),
    isConnected: () => state.isProven,
    queued: () => unanswered(state).length,
    [Symbol.asyncDispose]: async () => {
      state.isClosed = true;
      clearInterval(timer);
      clearTimeout(state.lingerTimer);
      for (const one of unanswered(state)) one.resolve(unavailable);
      state.queue = [];
      state.inFlight.clear();
      state.retrying.clear();
      state.stream?.cancel();
    },
  };
}
