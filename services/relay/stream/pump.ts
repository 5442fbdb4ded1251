import { errors } from "undici";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Counter, Histogram } from "#shared/metrics/family.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { CallTimes } from "../call-times.ts";
import type { StreamTap, Tally } from "../dialects/dialect.ts";
import { createEventCursor, type EventCursor } from "../dialects/event-cursor.ts";
import { createTextLikeness, type TextLikeness } from "../dialects/text-likeness.ts";
import { readStreamEvent, streamBytes, type StreamEvent } from "../dialects/sse.ts";
import { inSteps, type Consumer } from "../upstream/flow.ts";
import type { Answer } from "../upstream/send.ts";
import type { CallResponse } from "../http/exchange.ts";
import { createPieceWriter, type PieceWriter } from "../http/write-pieces.ts";
import { TurnShare, type Pausable } from "../http/turn-share.ts";
import { EventTooLargeError } from "../dialects/sse.ts";
import { meterRest, type MeteredRest } from "./oversized-event.ts";

export type Pump = {
  answer: Answer;
  response: CallResponse;
  tap: StreamTap;
  tally: Tally;
  times: CallTimes;
  /** What is counted while it flows: seconds, and bytes of the answer. */
  counts: { bytes: Counter; backpressure: Counter; gaps: Histogram };
  /** Whether the answer is made of events, which go out whole, or of bytes. */
  isOfEvents: boolean;
  maxEventBytes: number;
  /** Called before the last bytes of the answer are given to the caller; only the first call counts. */
  onEnd: (endCause: EndCause) => void;
  /** Called after each piece that passed. */
  onPiece: () => void;
  /** Told of what ended the stream where it should not have: an event that nobody could read, a fault of ours. */
  onBroken: (thrown: unknown) => void;
};

/** A stream under way: `cut` ends it from outside, `over` resolves when nothing more will be written. */
export type PumpHandle = {
  /** Starts the flow; what has come of the answer passes at once. */
  flow: () => void;
  cut: (endCause: EndCause) => void;
  over: Promise<void>;
  /** Sends a comment when nothing was sent for `silentMs`, so that nothing on the way takes the stream for dead. */
  beat: (silentMs: number) => void;
  /** How long the caller has not read what was written; 0 while it flows. */
  stalledMs: () => number;
  /** Keeps the upstream waiting, or lets it go on. */
  holdBack: (isHeld: boolean) => void;
  /** The same for another reason: it goes on when it has been resumed as often as paused. */
  source: Pausable;
  /** What is in memory of it: an event that is not whole yet, and what its caller has not read. */
  keptBytes: () => number;
};

/**
 * What goes out now, what tells the caller that the answer has ended, and whether nothing more may follow; `rest`: from
 * an event on that is too large to be given.
 */
type ReadState = { pieces: Buffer[]; ending: Buffer[]; isEnded: boolean; rest?: Buffer };

/** Adds the events that passed between two places, which lie one behind the other, as one piece. */
function addRun(pieces: Buffer[], bytes: Buffer, from: number, to: number): void {
  if (to > from) pieces.push(to - from === bytes.length ? bytes : bytes.subarray(from, to));
}

/** The events of a stream: one after the other, and which of them need not be read. */
type Events = { cursor: EventCursor; likeness: TextLikeness };

/** Reads the events that are whole and gives those that pass, neighbours joined, so that an untouched chunk is one. */
function readEvents({ cursor, likeness }: Events, chunk: Buffer, { tap, tally, onBroken }: Pump): ReadState {
  const reading: ReadState = { pieces: [], ending: [], isEnded: false };
  cursor.push(chunk);
  const { bytes } = cursor;
  let place = tally.isEnding ? reading.ending : reading.pieces;
  let from = 0;
  let passed = 0;
  try {
    for (;;) {
      const skimmed = likeness.skim(bytes, cursor.end, tally);
      if (skimmed !== -1) {
        cursor.skipTo(skimmed);
        passed = skimmed;
        continue;
      }
      const event = cursor.next();
      if (!event) break;
      const { start, end } = cursor;
      const verdict = tap.read(event, tally);
      const isTurned = tally.isEnding && place !== reading.ending;
      if (verdict !== "pass" || isTurned) {
        addRun(place, bytes, from, passed);
        place = isTurned ? reading.ending : place;
        from = verdict === "pass" ? start : end;
      }
      passed = end;
      reading.isEnded = verdict === "end";
      if (reading.isEnded) return reading;
      if (typeof verdict !== "string") place.push(verdict);
      if (verdict === "pass") likeness.learn(bytes, start, end);
    }
  } catch (thrown) {
    // What came before the event that is too large, or that breaks its reader, is counted and so is served.
    if (thrown instanceof EventTooLargeError) reading.rest = bytes.subarray(cursor.start);
    else reading.isEnded = true;
    onBroken(thrown);
  }
  addRun(place, bytes, from, passed);
  return reading;
}

const readBytes = (chunk: Buffer, { tap, tally }: Pump): ReadState => {
  tap.read(streamBytes(chunk), tally);
  return { pieces: [chunk], ending: [], isEnded: false };
};

const blankLine = Buffer.from("\n\n");
const keepAlive = Buffer.from(": keep-alive\n\n");

/**
 * The last event of an upstream that leaves out the blank line behind it; half an event is neither served nor counted.
 */
function readRest(rest: Buffer, { tap, tally, onBroken }: Pump): Buffer | "broken" | undefined {
  try {
    const event: StreamEvent = readStreamEvent(rest);
    if (!event.data?.startsWith("[DONE]") && event.json === undefined) return undefined;
    const verdict = tap.read(event, tally);
    if (verdict === "pass") return Buffer.concat([rest, blankLine]);
    return typeof verdict === "string" ? undefined : Buffer.concat([verdict, blankLine]);
  } catch (thrown) {
    onBroken(thrown);
    return "broken";
  }
}

const causeOfError = (error: Error): EndCause =>
  error instanceof errors.BodyTimeoutError ? EndCause.UPSTREAM_TIMEOUT : EndCause.UPSTREAM_CUT;

/** How much is read for the bill alone behind an event that is too large, in such events. */
const maxTimesLarger = 16;

// Of what follows the end of an answer's content: counts and an end mark are far less.
const maxHeldBytes = 65_536;

/**
 * Keeps back what tells the caller that the answer has ended until the answer is charged: callers may take it for
 * whole by that (API spec, Streaming that stops partway), and providers tell their counts only behind it.
 */
class Holding {
  private held: Buffer[] = [];
  private bytes = 0;

  release(): Buffer[] {
    const released = this.held;
    this.held = [];
    this.bytes = 0;
    return released;
  }

  keep(ending: Buffer[]): Buffer[] {
    for (const piece of ending) this.bytes += piece.length;
    this.held.push(...ending);
    return this.bytes > maxHeldBytes ? this.release() : [];
  }
}

/**
 * Keeps the upstream waiting while the caller does not read, while the money for more is asked for, and while what came
 * waits for its turn.
 */
function createPausing({ answer, response, counts }: Pump) {
  let pausedAtMs: number | undefined;
  let isHeldBack = false;
  let queues = 0;
  const stalledMs = (): number => (pausedAtMs === undefined ? 0 : performance.now() - pausedAtMs);
  const end = (): void => {
    counts.backpressure.inc(stalledMs() / 1_000);
    pausedAtMs = undefined;
  };
  const goOn = (): void => {
    if (pausedAtMs === undefined && !isHeldBack && queues === 0) answer.resume();
  };
  const resume = (): void => {
    end();
    goOn();
  };
  const holdBack = (isHeld: boolean): void => {
    if (isHeldBack === isHeld) return;
    isHeldBack = isHeld;
    if (isHeld) answer.pause();
    else goOn();
  };
  const queue = (isWaiting: boolean): void => {
    queues += isWaiting ? 1 : -1;
    if (isWaiting) answer.pause();
    else goOn();
  };
  const begin = (): void => {
    if (response.destroyed) return;
    pausedAtMs = performance.now();
    answer.pause();
    response.once("drain", resume);
  };
  // Whether the answer is read on without its caller is decided elsewhere: what is read then is metered only.
  response.once("close", () => {
    if (pausedAtMs !== undefined) resume();
  });
  const source: Pausable = { pause: () => queue(true), resume: () => queue(false) };
  return { begin, end, holdBack, source, stalledMs, isPaused: () => pausedAtMs !== undefined };
}

/** Writes what passes, and counts it. */
class Writing {
  private readonly pump: Pump;
  private readonly writer: PieceWriter;
  /** When the piece before was written; 0: none was, or the caller has made this one wait. */
  private lastAtMs = 0;
  private sentAtMs = performance.now();

  constructor(pump: Pump, writer: PieceWriter) {
    this.pump = pump;
    this.writer = writer;
  }

  /** Tells whether the caller keeps up. */
  write(pieces: Buffer[], nowMs: number): boolean {
    const { times, counts } = this.pump;
    let isFlowing = true;
    for (const piece of pieces) {
      isFlowing = this.writer.write(piece);
      counts.bytes.inc(piece.length);
    }
    if (times.firstByteAt === 0) times.firstByteAt = performance.now();
    if (this.lastAtMs !== 0) counts.gaps.observe((nowMs - this.lastAtMs) / 1_000);
    this.lastAtMs = nowMs;
    this.sentAtMs = nowMs;
    return isFlowing;
  }

  beat(silentMs: number): void {
    const nowMs = performance.now();
    if (this.pump.response.destroyed || nowMs - this.sentAtMs < silentMs) return;
    this.sentAtMs = nowMs;
    this.writer.write(keepAlive);
  }

  interrupt(): void {
    this.lastAtMs = 0;
  }
}

/** The same, as far as a turn of the event loop has room for it; the upstream waits meanwhile. */
function inTurns(source: Pausable, consumer: Consumer): Consumer {
  const share = new TurnShare(source);
  return inSteps((bytes, step) => share.take(bytes, step), consumer);
}

type MeteringOn = { source: Pausable; isWanted: () => boolean; cut: (endCause: EndCause) => void };

/** Nothing passes any more; the caller has the end of the stream when its bill is known. */
function meterOn(pump: Pump, rest: Buffer, { source, isWanted, cut }: MeteringOn): MeteredRest {
  const maxBytes = maxTimesLarger * pump.maxEventBytes;
  const onBroken = (): void => cut(EndCause.UPSTREAM_ERROR);
  const metered = meterRest({ ...pump, source, maxBytes, isWanted, onBroken });
  metered.add(rest);
  return metered;
}

/** Starts the flow, and notes when its first bytes have come. */
function beginFlow({ answer, times }: Pump, consumer: Consumer): void {
  // What came with the head is given at once, and has waited since.
  let isHeadGiven = false;
  const data: Consumer["data"] = (chunk) => {
    if (times.firstByteAt === 0) times.arrivedAt = isHeadGiven ? performance.now() : times.answeredAt;
    consumer.data(chunk);
  };
  answer.consume({ ...consumer, data });
  isHeadGiven = true;
}

/** How a stream ended whose upstream has ended its answer. */
function causeOfEnd({ isFailed, isComplete, hasFinish }: Tally, last: Buffer | "broken" | undefined): EndCause {
  if (isFailed || last === "broken") return EndCause.UPSTREAM_ERROR;
  return isComplete || hasFinish ? EndCause.COMPLETE : EndCause.UPSTREAM_CUT;
}

/** Charges the call and then gives the caller the last pieces and the end mark. */
function endAnswer(pump: Pump, writer: PieceWriter, endCause: EndCause, last: Buffer[]): void {
  const { response, isOfEvents, tap, tally, onEnd, onBroken } = pump;
  try {
    onEnd(endCause);
    if (response.destroyed) return;
    // Bytes have no end mark of their own: only a broken connection tells the caller that some are missing.
    if (!isOfEvents && endCause !== EndCause.COMPLETE) response.destroy();
    else writer.end(last, tap.end(tally));
  } catch (thrown) {
    // A caller who was given the end would take for whole what no ledger may know of.
    onBroken(thrown);
    response.destroy();
  }
}

/**
 * Carries a stream from the upstream to the caller: each chunk goes out in the turn in which it came, cut at the end
 * of its last whole event (half an event is of no use to anybody and must not stand before an end mark). A caller who
 * reads slowly pauses the upstream; of one who has left nothing is written any more, until somebody cuts the stream.
 * Whatever ends the stream, `onEnd` runs once, before the last bytes.
 */
export function pumpStream(pump: Pump): PumpHandle {
  const { answer, response, tally, times, isOfEvents, onEnd, onPiece, onBroken } = pump;
  const cursor = createEventCursor(pump.maxEventBytes);
  const events: Events = { cursor, likeness: createTextLikeness(pump.tap) };
  const holding = new Holding();
  const pausing = createPausing(pump);
  const writer = createPieceWriter(response);
  const writing = new Writing(pump, writer);
  let isOver = false;
  let metered: MeteredRest | undefined;
  const { promise: over, resolve: declareOver } = Promise.withResolvers<void>();

  const finish = (endCause: EndCause, last?: Buffer): void => {
    if (isOver) return;
    isOver = true;
    times.upstreamEndedAt = performance.now();
    pausing.end();
    declareOver();
    const held = holding.release();
    endAnswer(pump, writer, endCause, last ? [...held, last] : held);
  };
  const cut = (endCause: EndCause): void => {
    if (isOver) return;
    finish(endCause);
    // Afterwards, because an aborted answer fails at once, and that is not why it ended.
    answer.abort();
  };
  const forward = (pieces: Buffer[]): void => {
    if (pieces.length === 0 || response.destroyed) return;
    if (writing.write(pieces, performance.now()) || isOver || pausing.isPaused()) return;
    writing.interrupt();
    pausing.begin();
  };
  const take = (chunk: Buffer): void => {
    if (metered) return metered.add(chunk);
    const { pieces, ending, isEnded, rest } = isOfEvents ? readEvents(events, chunk, pump) : readBytes(chunk, pump);
    if (ending.length > 0) pieces.push(...holding.keep(ending));
    if (tally.isComplete) onEnd(EndCause.COMPLETE);
    if (tally.isComplete || tally.isFailed) pieces.push(...holding.release());
    forward(pieces);
    if (isEnded) cut(EndCause.UPSTREAM_ERROR);
    else onPiece();
    if (rest) metered = meterOn(pump, rest, { source: pausing.source, isWanted: () => !isOver, cut });
    faultPoint("relay: mid-stream");
  };

  const consumer = inTurns(pausing.source, {
    data: (chunk) => {
      if (isOver) return;
      try {
        take(chunk);
      } catch (thrown) {
        onBroken(thrown);
        cut(EndCause.UPSTREAM_ERROR);
      }
    },
    end: () => {
      if (metered) return metered.end(() => finish(EndCause.UPSTREAM_ERROR));
      const last = readRest(cursor.rest(), pump);
      finish(causeOfEnd(tally, last), last === "broken" ? undefined : last);
    },
    fail: (error) => finish(causeOfError(error)),
  });
  const flow = (): void => beginFlow(pump, consumer);
  const beat = (silentMs: number): void => {
    if (!isOver && isOfEvents && !pausing.isPaused()) writing.beat(silentMs);
  };
  // One that has a socket to itself keeps nothing besides, and one whose caller has left keeps nothing.
  const unreadBytes = (): number => (response.destroyed ? 0 : (response.socket ?? response).writableLength);
  const keptBytes = (): number => cursor.bytes.length - cursor.end + unreadBytes();
  const { stalledMs, holdBack, source } = pausing;
  return { flow, cut, over, beat, stalledMs, holdBack, source, keptBytes };
}
