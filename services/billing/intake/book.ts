import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import { endName } from "#shared/money/end-name.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Metrics } from "../metrics.ts";
import { planBatch, type BookedState, type NewLine, type Plan } from "../records/plan.ts";
import { rejectEvent, type ReadMessage, type Reject } from "../records/read-event.ts";
import { isDayMissing, type LedgerDays } from "../store/days.ts";
import { isRefusedData, type Pool } from "#shared/stores/postgres.ts";
import { BookedMeanwhileError } from "../store/insert-lines.ts";
import { postBatch, type PostResult, type Progress } from "../store/post.ts";
import { callUpdateOf, type Posting } from "./push-balances.ts";
import { traceLines } from "./trace-lines.ts";

/** What booking needs. */
export type BookingDeps = { pool: Pool; days: LedgerDays; metrics: Metrics; clock: Clock; log: Logger };

/** What auth-quota should be told of a batch, and what of it is in quarantine now, as it had been before or newly. */
export type Outcome = Posting & { rejects: Reject[] };

/**
 * Books a batch: when this returns, each of its events is in the ledger or in quarantine, committed, and the result is
 * what auth-quota should be told. When it throws, PostgreSQL could not be asked or did not answer; the same batch may
 * come again, whatever became of it. `progress` is given by who reads the stream in its order: a ledger that has lost
 * bookings throws LedgerLostError.
 */
export async function bookBatch(booking: BookingDeps, batch: ReadMessage, progress?: Progress): Promise<Outcome> {
  try {
    return await bookSeen(booking, batch, progress);
  } catch (error) {
    // A restored ledger lacks days that it had: nothing is wrong with the events.
    if (isDayMissing(error)) booking.days.forget();
    if (isDayMissing(error) || !isRefusedData(error)) throw error;
    return await bookApart(booking, batch, error);
  }
}

// NATS delivers a message again that was not acknowledged in time: two processes may then book it at once. The second
// one fails once for each transaction of others that it has in common, and finds the calls booked when it looks again.
const maxTries = 5;

async function bookSeen(booking: BookingDeps, batch: ReadMessage, progress?: Progress): Promise<Outcome> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await bookOnce(booking, batch, progress);
    } catch (error) {
      if (!(error instanceof BookedMeanwhileError) || tries === maxTries) throw error;
    }
  }
}

async function bookOnce(booking: BookingDeps, { events, rejects }: ReadMessage, progress?: Progress): Promise<Outcome> {
  const { pool, days } = booking;
  const startedAtMs = booking.clock.nowMs();
  const refusedDays = await days.ensure(events.map(({ day }) => day));
  const bookable = events.filter(({ day }) => !refusedDays.has(day));
  const tooFarOff = events
    .filter(({ day }) => refusedDays.has(day))
    .map((read) =>
      rejectEvent(read, { reason: "day_out_of_range", detail: `the ledger takes no lines on ${read.day}` }),
    );
  const decide = (booked: BookedState): Plan => {
    const plan = planBatch(bookable, booked, booking.clock.nowMs());
    plan.rejects.push(...rejects, ...tooFarOff);
    return plan;
  };
  const posted = await postBatch(pool, bookable, decide, progress);
  count(booking, posted);
  traceLines(posted.plan.lines, startedAtMs, booking.clock.nowMs());
  const calls = [...posted.plan.calls].map(([rid, call]) => callUpdateOf(rid, call));
  return { accounts: posted.accounts, keys: posted.keys, calls, rejects: posted.plan.rejects };
}

// One record that PostgreSQL refuses must neither block the others nor be lost: the batch is halved until it is alone.
async function bookApart(booking: BookingDeps, { events, rejects }: ReadMessage, error: unknown): Promise<Outcome> {
  const [only] = events;
  if (only === undefined) throw error;
  if (events.length === 1) {
    const refused = rejectEvent(only, { reason: "refused_by_database", detail: String(error) });
    return await bookOnce(booking, { events: [], rejects: [...rejects, refused] });
  }
  const middle = Math.ceil(events.length / 2);
  const first = await bookBatch(booking, { events: events.slice(0, middle), rejects });
  const second = await bookBatch(booking, { events: events.slice(middle), rejects: [] });
  // Later amounts carry higher versions: told together, the order does not matter.
  return {
    accounts: [...first.accounts, ...second.accounts],
    keys: [...first.keys, ...second.keys],
    calls: [...first.calls, ...second.calls],
    rejects: [...first.rejects, ...second.rejects],
  };
}

function count({ metrics, clock, log }: BookingDeps, { plan, newRejects, priceConflicts }: PostResult): void {
  const nowMs = clock.nowMs();
  let chargedNanos = 0n;
  for (const line of plan.lines) {
    metrics.booked.inc({ kind: nameOf(line), end: endName(line.read.event.endCause) });
    chargedNanos -= line.amountNanos;
    const { endedAtMs } = line.read.event;
    if (endedAtMs !== undefined) metrics.eventAge.observe(Math.max(0, nowMs - endedAtMs) / 1_000);
  }
  metrics.chargedNanos.inc(Number(chargedNanos));
  metrics.duplicates.inc(plan.duplicates);
  metrics.superseded.inc(plan.superseded);
  countTroubles(metrics, log, { plan, newRejects });
  for (const { model, version, rid, calls } of priceConflicts) {
    metrics.priceConflicts.inc(calls);
    log.error({ model, version, rid, calls }, "price version received with different prices than booked");
  }
}

function countTroubles(
  metrics: Metrics,
  log: Logger,
  { plan, newRejects }: { plan: Plan; newRejects: Reject[] },
): void {
  for (const { reason, detail, rid, streamSequence } of newRejects) {
    metrics.quarantined.inc({ reason });
    log.error({ rid, reason, detail, streamSequence }, "usage record quarantined");
  }
  for (const rid of plan.loweredRids) {
    metrics.lowered.inc();
    log.error({ rid }, "final record costs less than the provisional charge; the charge stays");
  }
}

const names: Partial<Record<LineKind, string>> = {
  [LineKind.CHARGE]: "charge",
  [LineKind.PROVISIONAL_CHARGE]: "provisional",
  [LineKind.FINAL_ADJUSTMENT]: "adjustment",
};

function nameOf({ kind }: NewLine): string {
  return names[kind] ?? "other";
}
