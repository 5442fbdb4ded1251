import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import type { NewLine } from "../records/plan.ts";
import { numberArray, textArray } from "./arrays.ts";
import type { Queryable } from "#shared/stores/postgres.ts";

type Progress = { events: number; highest: bigint };

/**
 * Counts newly booked events by relay process, in the transaction that books them (money invariant I11). Provisional
 * records are outside the numbering. Rows are written in one order, and last of all: two transactions cannot wait in a
 * circle, and a relay's row, which every batch touches, is locked for the commit only.
 */
export async function countEvents(db: Queryable, lines: readonly NewLine[]): Promise<void> {
  const sessions = progressOf(lines);
  if (sessions.length === 0) return;
  await db.query(
    `INSERT INTO billing.session_progress AS p (relay_session, events, highest_sequence, whole_at)
     SELECT relay_session, events, highest, now() FROM unnest($1::text[], $2::bigint[], $3::bigint[])
       AS new (relay_session, events, highest)
     ON CONFLICT (relay_session) DO UPDATE SET events = p.events + excluded.events,
       highest_sequence = greatest(p.highest_sequence, excluded.highest_sequence), changed_at = now(),
       whole_at = CASE WHEN p.events + excluded.events > greatest(p.highest_sequence, excluded.highest_sequence)
         THEN now() ELSE p.whole_at END`,
    [
      textArray(sessions.map(([relaySession]) => relaySession)),
      numberArray(sessions.map(([, { events }]) => events)),
      numberArray(sessions.map(([, { highest }]) => highest)),
    ],
  );
}

/** For so long the ledger remembers a relay process of which it books nothing. */
export const keptDays = 400;

/** How many events are booked of these relay processes, by their names. */
export async function readBookedEvents(db: Queryable, names: readonly string[]): Promise<Map<string, bigint>> {
  if (names.length === 0) return new Map();
  const { rows } = await db.query<{ relaySession: string; events: bigint }>(
    `SELECT relay_session AS "relaySession", events FROM billing.session_progress
     WHERE relay_session = ANY ($1::text[])`,
    [textArray(names)],
  );
  return new Map(rows.map(({ relaySession, events }) => [relaySession, events]));
}

/** Forgets relay processes that booked nothing for 400 days; returns how many. */
export async function forgetSessions(db: Queryable): Promise<bigint> {
  const { rows } = await db.query<{ forgotten: bigint }>("SELECT billing.forget_sessions() AS forgotten");
  return rows[0]?.forgotten ?? 0n;
}

function progressOf(lines: readonly NewLine[]): [string, Progress][] {
  const sessions = new Map<string, Progress>();
  for (const { read } of lines) {
    const { kind, relaySession, sequence } = read.event;
    if (kind !== RecordKind.FINAL || relaySession === "") continue;
    const progress = sessions.get(relaySession);
    if (!progress) {
      sessions.set(relaySession, { events: 1, highest: sequence });
      continue;
    }
    progress.events += 1;
    if (sequence > progress.highest) progress.highest = sequence;
  }
  return [...sessions].toSorted(([a], [b]) => (a < b ? -1 : 1));
}
