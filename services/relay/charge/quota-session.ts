import type { Client } from "@grpc/grpc-js";
import { AuthQuotaService, Verdict, type Result } from "#proto/authquota/v1/authquota_pb.ts";
import { grpcService } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { keepStream, type QuotaStreams, type Stream } from "./quota-stream.ts";
import {
  decodeSessionResponse,
  encodeSessionRequest,
  resultOf,
  type Operation,
  type SessionAnswer,
} from "./session-wire.ts";

/** The relay's line to auth-quota: operations go out in batches, each promise resolves with its result. */
export type QuotaSession = AsyncDisposable & {
  /**
   * Sends an operation that somebody waits for. Resolves with VERDICT_UNAVAILABLE when no answer came within the
   * deadline, over however many streams; asking again with the same rid is always safe.
   */
  ask: (operation: Operation) => Promise<Result>;
  /** Sends an operation that nobody waits for; it is sent again until it is answered. */
  tell: (operation: Operation) => Promise<Result>;
  /** The same without a promise, which costs more than the rest, for what is sent for every call. */
  tellThen: (operation: Operation, onAnswer: (result: Result) => void) => void;
  /** Whether a stream is open on which auth-quota has answered. */
  isConnected: () => boolean;
  /** Whether it makes sense to ask: false once no stream has been proven for a while, so that callers need not wait. */
  isReachable: () => boolean;
  /**
   * What auth-quota remembers, by name; "" before the first answer. Another name than before: it has lost calls, and
   * this relay's holds must be restored.
   */
  generation: () => string;
  /** Whether the operators have closed the API, as last told; false before it was told. */
  isMaintenance: () => boolean;
  /** Whether LookupMany may be asked: the server at the other end of the stream has said so. */
  hasLookupMany: () => boolean;
  /** By how many ms this process' clock is ahead of the hot store's, as last told; 0 before it was told. */
  clockAheadMs: () => number;
  /** Operations that have not been answered. */
  queued: () => number;
  /** Whether what must arrive finds room, with as much again for what follows from it. */
  hasRoom: () => boolean;
  /** Has every lease told that auth-quota asks back, until it is released. One listener. */
  onRecalled: (listener: (leaseRids: readonly string[]) => void) => void;
};

type Waiting = {
  operation: Operation;
  resolve: (result: Result) => void;
  /** Monotonic milliseconds after which the caller has given up; infinite for operations that must arrive. */
  deadlineAt: number;
  /** Whether it was sent on a stream before, which may still reach somebody who decides it. */
  isSentAgain: boolean;
};

/**
 * `silentMs` is longer than auth-quota takes when its own neighbours hang. A stream without answers for so long leads
 * to a process that is stopped or cut off: another replica, or a quick no, serves callers better. `heartbeatMs` bounds
 * how late a relay without calls hears of a maintenance.
 */
export type SessionLimits = {
  askTimeoutMs: number;
  lingerMs: number;
  maxQueued: number;
  silentMs: number;
  heartbeatMs: number;
};

export const defaultLimits: SessionLimits = {
  askTimeoutMs: 2_000,
  lingerMs: 25,
  maxQueued: 50_000,
  silentMs: 5_000,
  heartbeatMs: 1_000,
};

// Long enough for a stream to be replaced when a replica of auth-quota stops.
const unreachableAfterMs = 1_000;

const maxBatch = 512;
const maxInFlight = 256;
const retryMs = 500;
// Leases come back with the next batches of their relays, or within a heartbeat.
const recalledMs = 50;
const sweepMs = 100;

const unavailable = Object.freeze(resultOf(Verdict.UNAVAILABLE));

/** How many calls go on in one turn of the event loop: each is read, prepared and sent to its upstream at once. */
const mostInTurn = 32;

type Answered = { one: Waiting; result: Result };

/** A batch that is not answered. */
type SentBatch = { batch: number; waiting: Waiting[] };

type State = QuotaStreams & {
  relaySession: string;
  limits: SessionLimits;
  batch: number;
  queue: Waiting[];
  /** In the order of sending. No Map: what comes and goes by the hundred a second would stay with its old tables. */
  inFlight: SentBatch[];
  /** Monotonic milliseconds since when an answer is due; of no meaning while nothing is in flight. */
  dueSince: number;
  /** Calls whose answers have come and who hear them in this turn of the event loop or a later one, in their order. */
  answered: Answered[];
  isTurnPlanned: boolean;
  /** Operations that could not be decided and wait for a moment before they are sent again. */
  retrying: Set<Waiting>;
  generation: string;
  isMaintenance: boolean;
  hasLookupMany: boolean;
  /** What is to be added to the monotonic clock for the hot store's time; undefined before it was told. */
  timeOffsetMs: number | undefined;
  isFlushPlanned: boolean;
  lingerTimer: NodeJS.Timeout | undefined;
  lastSentAt: number;
  isClosed: boolean;
  onRecalled: (leaseRids: readonly string[]) => void;
};

function flush(state: State): void {
  const { stream, isMoving, inFlight } = state;
  while (stream && !isMoving && state.queue.length > 0 && inFlight.length < maxInFlight) send(state, takeBatch(state));
}

/** The oldest operations of the queue; nearly always all of them. */
function takeBatch(state: State): Waiting[] {
  const { queue } = state;
  if (queue.length > maxBatch) return queue.splice(0, maxBatch);
  state.queue = [];
  return queue;
}

function flushPlanned(state: State): void {
  state.isFlushPlanned = false;
  flush(state);
}

/** The timer is left to run when its operations have gone with others: that costs less than a timer for each flush. */
function flushLingering(state: State): void {
  state.lingerTimer = undefined;
  flush(state);
}

function send(state: State, waiting: Waiting[]): void {
  if (state.inFlight.length === 0) state.dueSince = performance.now();
  state.batch += 1;
  state.inFlight.push({ batch: state.batch, waiting });
  state.stream?.write(encodeSessionRequest(state.relaySession, state.batch, waiting));
  state.lastSentAt = performance.now();
}

function heartbeat(state: State): void {
  if (!state.stream || state.isMoving || performance.now() - state.lastSentAt < state.limits.heartbeatMs) return;
  send(state, []);
}

/** Gives up a stream on which nothing comes any more; what it left unanswered goes out on the next one. */
function breakSilent(state: State): void {
  if (state.inFlight.length === 0 || performance.now() - state.dueSince < state.limits.silentMs) return;
  state.stream?.cancel();
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
  for (const waiting of state.retrying) if (!isLive(waiting)) state.retrying.delete(waiting);
  for (const { waiting } of state.inFlight) for (const one of waiting) isLive(one);
}

function sweep(state: State): void {
  if (state.isClosed) return;
  expire(state);
  breakSilent(state);
  heartbeat(state);
  flush(state);
}

function takeResults(state: State, answer: SessionAnswer): void {
  const { batch, results, generation } = answer;
  // Holds are restored by the calls that know of theirs: who was granted one before it was lost must hear of it first.
  if (generation !== state.generation) takeAnswered(state, Infinity);
  if (generation !== "") state.generation = generation;
  state.isMaintenance = answer.isMaintenance ?? state.isMaintenance;
  state.hasLookupMany = answer.hasLookupMany;
  if (answer.timeMs > 0) state.timeOffsetMs = answer.timeMs - performance.now();
  if (answer.recalledLeases.length > 0) state.onRecalled(answer.recalledLeases);
  // Nearly always the first.
  const place = state.inFlight.findIndex((sent) => sent.batch === batch);
  const wasFull = state.inFlight.length >= maxInFlight;
  const [sent] = place === -1 ? [] : state.inFlight.splice(place, 1);
  if (!sent) return;
  const { waiting } = sent;
  state.dueSince = performance.now();
  for (let index = 0; index < waiting.length; index += 1) {
    const one = waiting[index] as Waiting;
    const result = results[index] ?? unavailable;
    if (one.deadlineAt === Infinity) takeResult(state, one, result);
    else state.answered.push({ one, result });
  }
  if (!state.isTurnPlanned) takeTurn(state);
  // Without that, what is queued is still being gathered.
  if (wasFull) flush(state);
}

function takeTurn(state: State): void {
  takeAnswered(state, mostInTurn);
  state.isTurnPlanned = state.answered.length > 0;
  if (state.isTurnPlanned) setImmediate(takeTurn, state);
}

function takeAnswered(state: State, most: number): void {
  for (const { one, result } of state.answered.splice(0, most)) takeResult(state, one, result);
}

function takeResult(state: State, one: Waiting, result: Result): void {
  const mustArrive = one.deadlineAt === Infinity;
  if (mustArrive && result.verdict === Verdict.UNAVAILABLE && !state.isClosed) return retryLater(state, one, retryMs);
  if (result.verdict === Verdict.RECALLED && !state.isClosed) return retryLater(state, one, recalledMs);
  if (one.isSentAgain && result.verdict !== Verdict.OK) releaseRefused(state, one.operation);
  one.resolve(result);
}

/** A Reserve that was refused here may be granted by who got it first, after a pause: nobody would use that hold. */
function releaseRefused(state: State, { operation }: Operation): void {
  if (operation?.case !== "reserve") return;
  const { rid = "", keyHash = new Uint8Array() } = operation.value;
  const release: Operation = { operation: { case: "release", value: { rid, keyHash } } };
  enqueue(state, { operation: release, resolve: () => undefined, deadlineAt: Infinity, isSentAgain: false });
}

function retryLater(state: State, waiting: Waiting, delayMs: number): void {
  state.retrying.add(waiting);
  setTimeout(() => {
    if (state.retrying.delete(waiting)) enqueue(state, waiting);
  }, delayMs);
}

function enqueue(state: State, waiting: Waiting): void {
  if (state.queue.length >= state.limits.maxQueued) return waiting.resolve(unavailable);
  state.queue.push(waiting);
  // Somebody waits: out at the end of this turn of the event loop. Nobody waits: gather for a moment, then ride along.
  if (waiting.deadlineAt !== Infinity) {
    if (!state.isFlushPlanned) setImmediate(flushPlanned, state);
    state.isFlushPlanned = true;
  } else state.lingerTimer ??= setTimeout(flushLingering, state.limits.lingerMs, state);
}

const unanswered = ({ queue, inFlight, answered, retrying }: State): Waiting[] => [
  ...queue,
  ...inFlight.flatMap(({ waiting }) => waiting),
  ...answered.map(({ one }) => one),
  ...retrying,
];

/** The server of the next stream may be one that does not know LookupMany; the next look asks again. */
function dropLookups(state: State): void {
  state.hasLookupMany = false;
  state.queue = state.queue.filter((one) => {
    if (one.operation.operation?.case !== "lookupMany") return true;
    one.resolve(unavailable);
    return false;
  });
}

/** Keeps a stream open; what a lost one left unanswered is sent again on the next one, in the same order. */
function connect(state: State, channel: Client, log: Logger): void {
  const method = grpcService(AuthQuotaService)["session"];
  if (!method) throw new Error("the contract has no Session");
  const encoded = (bytes: Buffer): Buffer => bytes;
  keepStream(state, {
    open: () => channel.makeBidiStreamRequest(method.path, encoded, decodeSessionResponse),
    isClosed: () => state.isClosed,
    prove: (stream) => prove(state, stream),
    take: (answer) => takeResults(state, answer),
    isAnswerDue: () => state.inFlight.length > 0,
    onLost: (error) => {
      // Said once for each loss of a stream that worked, not for every try to open another one.
      if (state.isProven) log.warn({ reason: error?.message ?? "ended" }, "auth-quota stream is lost, trying on");
      for (const { waiting } of state.inFlight) for (const one of waiting) one.isSentAgain = true;
      state.queue = [...state.inFlight.flatMap(({ waiting }) => waiting), ...state.queue];
      state.inFlight = [];
      expire(state);
      dropLookups(state);
    },
    onReady: () => flush(state),
    onProven: (isMoved) => {
      if (isMoved) dropLookups(state);
      log.info(isMoved ? "auth-quota stream is moved to another replica" : "auth-quota stream is open");
    },
  });
}

/** The heartbeat of a stream beside the one in use is nobody's batch: only that it is answered counts. */
function prove(state: State, stream: Stream): void {
  state.lastSentAt = -Infinity;
  if (stream === state.stream) return heartbeat(state);
  state.batch += 1;
  stream.write(encodeSessionRequest(state.relaySession, state.batch, []));
}

/** By the monotonic clock since it was told, so that a clock that is put right is known to be at once. */
function clockAheadMs({ timeOffsetMs }: State): number {
  return timeOffsetMs === undefined ? 0 : Math.round(Date.now() - performance.now() - timeOffsetMs);
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
    next: undefined,
    isMoving: false,
    batch: 0,
    queue: [],
    inFlight: [],
    answered: [],
    isTurnPlanned: false,
    dueSince: 0,
    retrying: new Set(),
    isProven: false,
    unprovenAt: performance.now(),
    generation: "",
    isMaintenance: false,
    hasLookupMany: false,
    timeOffsetMs: undefined,
    isFlushPlanned: false,
    lingerTimer: undefined,
    lastSentAt: 0,
    isClosed: false,
    onRecalled: () => undefined,
  };
  connect(state, channel, log);
  // Timers come before what the sockets hold: a process that stood still reads first, then says what is missing.
  const timer = setInterval(() => setImmediate(sweep, state), sweepMs);
  const request = (operation: Operation, deadlineAt: number): Promise<Result> =>
    new Promise((resolve) => enqueue(state, { operation, resolve, deadlineAt, isSentAgain: false }));
  return {
    ask: (operation) => request(operation, performance.now() + limits.askTimeoutMs),
    tell: (operation) => request(operation, Infinity),
    tellThen: (operation, resolve) => enqueue(state, { operation, resolve, deadlineAt: Infinity, isSentAgain: false }),
    isConnected: () => state.isProven,
    isReachable: () => state.isProven || performance.now() - state.unprovenAt < unreachableAfterMs,
    generation: () => state.generation,
    isMaintenance: () => state.isMaintenance,
    hasLookupMany: () => state.hasLookupMany,
    clockAheadMs: () => clockAheadMs(state),
    queued: () => unanswered(state).length,
    hasRoom: () => state.queue.length + state.retrying.size < limits.maxQueued / 2,
    onRecalled: (listener) => {
      state.onRecalled = listener;
    },
    [Symbol.asyncDispose]: async () => {
      state.isClosed = true;
      clearInterval(timer);
      clearTimeout(state.lingerTimer);
      for (const one of unanswered(state)) one.resolve(unavailable);
      state.queue = [];
      state.inFlight = [];
      state.retrying.clear();
      state.stream?.cancel();
      state.next?.cancel();
    },
  };
}
