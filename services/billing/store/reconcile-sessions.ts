import { dayMs } from "#shared/process/clock.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { dayOfMs } from "../records/check.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { findDetachedDay } from "./partitions.ts";
import { askLong } from "./reconcile-query.ts";

/** A relay process of which fewer or more events are booked than its numbers say. */
export type SessionRow = { relaySession: string; events: bigint; highest: bigint; changedAt: Date };

/** Numbers of one relay process, from the first to the last, that no line has. */
export type GapRow = { first: bigint; last: bigint };

/**
 * How many relay processes there are, and the first of those with a hole that is older than `ageMs`. Of processes that
 * ended 60 days ago nothing can be booked any more.
 */
export async function findHoledSessions(
  pool: Pool,
  ageMs: number,
  limit: number,
): Promise<{ sessions: bigint; holed: SessionRow[] }> {
  const [total] = await askLong<{ sessions: bigint }>(
    pool,
    "SELECT count(*) AS sessions FROM billing.session_progress",
    [],
  );
  const holed = await askLong<SessionRow>(
    pool,
    `SELECT relay_session AS "relaySession", events, highest_sequence AS highest, changed_at AS "changedAt"
     FROM billing.session_progress
     WHERE events <> highest_sequence + 1 AND whole_at < now() - $1 * interval '1 millisecond'
       AND changed_at > now() - interval '60 days'
     ORDER BY changed_at DESC LIMIT $2`,
    [ageMs, limit],
  );
  return { sessions: total?.sessions ?? 0n, holed };
}

const oldestDays = 60;

/**
 * The gaps in the numbers of a relay process, apart from those before an event that was booked within `ageMs`, and from
 * the numbers of days that have left the ledger.
 */
export async function findGaps(pool: Pool, session: SessionRow, ageMs: number): Promise<GapRow[]> {
  const changedMs = session.changedAt.getTime();
  // A relay process is named when it starts, and its calls come after that; its clock may have been put back since.
  const startedMs = (ridTimeMs(session.relaySession) ?? changedMs - oldestDays * dayMs) - dayMs;
  const firstDay = dayOfMs(startedMs);
  const isWhole = (await findDetachedDay(pool, firstDay, dayOfMs(changedMs))) === undefined;
  return await askLong<GapRow>(
    pool,
    `SELECT previous + 1 AS first, number - 1 AS last FROM (
       SELECT relay_sequence AS number, booked_at,
         lag(relay_sequence, 1, $5::bigint) OVER (ORDER BY relay_sequence) AS previous
       FROM billing.ledger_line
       WHERE relay_session = $1 AND kind IN (1, 3) AND day BETWEEN $2 AND $3
     ) AS line
     WHERE number > previous + 1 AND booked_at < now() - $4 * interval '1 millisecond' ORDER BY 1 LIMIT 100`,
    [session.relaySession, firstDay, dayOfMs(changedMs + dayMs), ageMs, isWhole ? -1 : null],
  );
}

export type TwiceRow = { relaySession: string; number: bigint; lines: bigint };

/** Numbers that two lines of a day bear: they would make up for a hole. */
export async function findNumbersUsedTwice(pool: Pool, day: string): Promise<TwiceRow[]> {
  return await askLong<TwiceRow>(
    pool,
    `SELECT relay_session AS "relaySession", relay_sequence AS number, count(*) AS lines FROM billing.ledger_line
     WHERE day = $1 AND kind IN (1, 3) AND relay_session <> ''
     GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY 1, 2 LIMIT 100`,
    [day],
  );
}

/** Encoded records in quarantine since that instant, the oldest first. */
export async function readQuarantinedSince(pool: Pool, sinceMs: number, limit: number): Promise<Buffer[]> {
  const rows = await askLong<{ payload: Buffer }>(
    pool,
    `SELECT payload FROM billing.usage_quarantine WHERE received_at >= $1 ORDER BY quarantine_id LIMIT $2`,
    [new Date(sinceMs), limit],
  );
  return rows.map(({ payload }) => payload);
}
