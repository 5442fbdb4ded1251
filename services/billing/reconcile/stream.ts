import { jetstreamManager, type StreamState } from "@nats-io/jetstream";
import { ServiceError } from "#shared/process/errors.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import type { NatsLink } from "../intake/nats.ts";
import { decide } from "../records/plan.ts";
import { readMessage, type ReadEvent } from "../records/read-event.ts";
import { counted, listed, maxItems, right, usd, wrong, type CheckResult, type Window } from "../records/finding.ts";
import { readStreamAgain, type StreamMessage } from "../intake/read-stream.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { readBookedCalls } from "../store/post.ts";
import { findQuarantined } from "../store/quarantine.ts";
import { readEventLines, type EventLine } from "../store/reconcile-stream.ts";
import { consumerName } from "../intake/stream.ts";

/** Sums of one side. */
type Side = { events: number; costNanos: bigint };

/** The stream beside the ledger. */
export type StreamComparison = {
  read: Side;
  /** Acknowledged by billing, and neither booked nor in quarantine. */
  missing: Side;
  quarantined: number;
  /** Not booked, and not acknowledged either: on their way. */
  waiting: Side;
  lines: number;
  /** Lines that the stream should hold the event of, and does not. */
  strangers: Side;
  /** Lines whose event went with what the stream has lost or dropped. */
  outlived: Side;
  /** Why not all was read. */
  cut: string | undefined;
  items: string[];
};

// Instants come from three clocks: those of NATS, of PostgreSQL and of this process.
const clocksMs = 60_000;
const eventsAtOnce = 2_000;
const pageBytes = 1_048_576;

const none = (): Side => ({ events: 0, costNanos: 0n });

const nothingRead = (): StreamComparison => ({
  read: none(),
  missing: none(),
  quarantined: 0,
  waiting: none(),
  lines: 0,
  strangers: none(),
  outlived: none(),
  cut: undefined,
  items: [],
});

/** What comparing needs. */
export type StreamDeps = { nats: NatsLink; pool: Pool };

/** Reads the stream from the window's start on, at most `maxEvents`, and asks the ledger for each event and back. */
export async function compareStream(
  { nats, pool }: StreamDeps,
  window: Window,
  maxEvents: number,
): Promise<StreamComparison> {
  const { ackedSequence, lostUntilMs } = await readBounds(nats, window.nowMs);
  const comparison = nothingRead();
  const seen = new Set<string>();
  const taking: ComparisonState = { pool, comparison, seen, nowMs: window.nowMs, ackedSequence };
  const startMs = window.fromMs - clocksMs;
  const readUntilMs = await readEvents(taking, { nats, startMs, maxEvents });
  const bookedBeforeMs = (readUntilMs ?? window.nowMs) - clocksMs;
  for await (const page of readEventLines(pool, window, bookedBeforeMs)) {
    for (const line of page) takeLine(comparison, line, { seen, lostUntilMs: lostUntilMs + clocksMs });
  }
  return comparison;
}

// Asked for before anything is read: what was acknowledged by then must be found.
async function readBounds(nats: NatsLink, nowMs: number): Promise<{ ackedSequence: number; lostUntilMs: number }> {
  const connection = nats.current();
  if (!connection) throw new ServiceError("unavailable", "NATS is not connected");
  const manager = await jetstreamManager(connection);
  const { ack_floor: floor } = await manager.consumers.info(usageStream, consumerName);
  const { state, created } = await manager.streams.info(usageStream);
  return { ackedSequence: floor.stream_seq, lostUntilMs: lostUntil(state, created, nowMs) };
}

// What was booked before this instant may have come from a stream, or a part of it, that is gone.
function lostUntil(
  { first_seq: firstSequence, first_ts: firstTime, messages }: StreamState,
  created: string,
  nowMs: number,
): number {
  if (firstSequence <= 1) return Date.parse(created);
  return messages > 0 ? Date.parse(firstTime) : nowMs;
}

type ReadPlan = { nats: NatsLink; startMs: number; maxEvents: number };

/** Gives the time of the last message that was read, when that was not the last one of the stream. */
async function readEvents(
  taking: ComparisonState,
  { nats, startMs, maxEvents }: ReadPlan,
): Promise<number | undefined> {
  const end = new AbortController();
  const { comparison } = taking;
  let page: StreamMessage[] = [];
  let bytes = 0;
  try {
    for await (const message of readStreamAgain(nats, { fromMs: startMs, untilMs: undefined }, end.signal)) {
      page.push(message);
      bytes += message.data.length;
      if (bytes < pageBytes) continue;
      await takePage(taking, page);
      [page, bytes] = [[], 0];
      if (comparison.read.events < maxEvents) continue;
      comparison.cut = `only up to ${new Date(message.timeMs).toISOString()}`;
      return message.timeMs;
    }
    await takePage(taking, page);
    return undefined;
  } finally {
    end.abort();
  }
}

type ComparisonState = {
  pool: Pool;
  comparison: StreamComparison;
  seen: Set<string>;
  nowMs: number;
  ackedSequence: number;
};

async function takePage(taking: ComparisonState, messages: readonly StreamMessage[]): Promise<void> {
  const read = messages.map(({ data, sequence }) => readMessage(data, sequence, taking.nowMs));
  const events = read.flatMap((message) => message.events);
  for (let at = 0; at < events.length; at += eventsAtOnce) {
    await takeEvents(taking, events.slice(at, at + eventsAtOnce));
  }
  const rejects = read.flatMap((message) => message.rejects);
  const kept = await findQuarantined(
    taking.pool,
    rejects.map(({ hash }) => hash),
  );
  for (const { rid, hash, streamSequence, reason } of rejects) {
    takeUnbooked(taking, { isKept: kept.has(hash), streamSequence, costNanos: 0n, name: `${rid ?? "?"}: ${reason}` });
  }
  taking.comparison.read.events += rejects.length;
}

async function takeEvents(taking: ComparisonState, events: readonly ReadEvent[]): Promise<void> {
  const { pool, comparison, seen } = taking;
  const booked = await readBookedCalls(pool, events);
  const isBooked = (event: ReadEvent): boolean => typeof decide(event, booked.get(event.event.rid)) === "string";
  const others = events.filter((event) => !isBooked(event));
  const kept = await findQuarantined(
    pool,
    others.map(({ hash }) => hash),
  );
  for (const { event, hash } of events) {
    comparison.read.events += 1;
    comparison.read.costNanos += event.costNanos;
    seen.add(shortOf(hash));
  }
  for (const { event, hash, streamSequence } of others) {
    const name = `${event.rid}: on the stream as message ${streamSequence}, not in the ledger, ${usd(event.costNanos)}`;
    takeUnbooked(taking, { isKept: kept.has(hash), streamSequence, costNanos: event.costNanos, name });
  }
}

type UnbookedEvent = { isKept: boolean; streamSequence: number | undefined; costNanos: bigint; name: string };

function takeUnbooked(
  { comparison, ackedSequence }: ComparisonState,
  { isKept, streamSequence, costNanos, name }: UnbookedEvent,
): void {
  if (isKept) {
    comparison.quarantined += 1;
    return;
  }
  const isAcked = (streamSequence ?? 0) <= ackedSequence;
  add(isAcked ? comparison.missing : comparison.waiting, costNanos);
  if (isAcked && comparison.items.length < maxItems) comparison.items.push(name);
}

function takeLine(
  comparison: StreamComparison,
  { rid, hash, costNanos, bookedAt }: EventLine,
  { seen, lostUntilMs }: { seen: ReadonlySet<string>; lostUntilMs: number },
): void {
  comparison.lines += 1;
  if (seen.has(shortOf(hash))) return;
  const isExplained = bookedAt.getTime() < lostUntilMs;
  add(isExplained ? comparison.outlived : comparison.strangers, costNanos);
  if (isExplained || comparison.items.length >= maxItems) return;
  comparison.items.push(`${rid}: in the ledger, not on the stream, ${usd(costNanos)}`);
}

function add(side: Side, costNanos: bigint): void {
  side.events += 1;
  side.costNanos += costNanos;
}

// 128 bits of the hash as a flat text of 16 characters: there may be a million of them.
function shortOf(hash: string): string {
  return Buffer.from(hash.slice(0, 32), "hex").toString("latin1");
}

/** R4: what the stream holds is booked, and what is booked was on the stream. */
export function judgeStream(comparison: StreamComparison): CheckResult {
  const { read, missing, quarantined, waiting, lines, strangers, outlived, cut, items } = comparison;
  const booked = read.events - missing.events - waiting.events - quarantined;
  const words = [
    `${counted(read.events, "event")} on the stream (${usd(read.costNanos)}), ${booked} booked`,
    `${counted(lines, "line")} of a minute ago or older looked up on it`,
    missing.events > 0 && `${counted(missing.events, "event")} not booked (${usd(missing.costNanos)})`,
    strangers.events > 0 && `${counted(strangers.events, "line")} without an event (${usd(strangers.costNanos)})`,
    waiting.events > 0 && `${waiting.events} on their way (${usd(waiting.costNanos)})`,
    quarantined > 0 && `${quarantined} in quarantine`,
    outlived.events > 0 && `${counted(outlived.events, "line")} older than what the stream still holds`,
    cut !== undefined && `read ${cut}`,
  ].filter((part) => part !== false);
  const summary = words.join("; ");
  if (missing.events + strangers.events > 0) return wrong(summary, items, missing.costNanos + strangers.costNanos);
  const isNotable = waiting.events + quarantined + outlived.events > 0 || cut !== undefined;
  return isNotable ? listed(summary) : right(summary);
}
