import { inTransaction, type Pool, type Queryable } from "#shared/stores/postgres.ts";
import { dayMs } from "#shared/process/clock.ts";
import { dayOfMs, oldestDays } from "../records/check.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { isOpen, noteSettled } from "./quarantine.ts";
import { longestMs } from "./reconcile-query.ts";

/** A day as it is archived: what is signed, and what is counted again before its lines are dropped. */
export type ArchivedDay = {
  day: string;
  content: Buffer;
  signature: Buffer;
  publicKey: string;
  lines: bigint;
  amountNanos: bigint;
};

/** How long lines that were read back stay in the ledger, in days. */
const restoredDays = 7;

/** `isArchived`: its lines are those that were read back. */
export type DueDay = { day: string; isClosed: boolean; isArchived: boolean };

/** Days before `beforeDay` that are in the ledger and ought not to be, the oldest first. */
export async function findDueDays(db: Queryable, beforeDay: string): Promise<DueDay[]> {
  const { rows } = await db.query<DueDay>(
    `SELECT p.day, c.day IS NOT NULL AS "isClosed", a.day IS NOT NULL AS "isArchived" FROM (
       SELECT to_date(c.relname, '"ledger_line_"YYYY_MM_DD') AS day
       FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'billing.ledger_line'::regclass
     ) AS p LEFT JOIN billing.closed_day AS c USING (day) LEFT JOIN billing.archived_day AS a USING (day)
     WHERE p.day < $1 AND (a.restored_at IS NULL OR a.restored_at < now() - $2 * interval '1 day') ORDER BY p.day`,
    [beforeDay, restoredDays],
  );
  return rows;
}

/** Why a closed day must stay in the ledger, apart from its own lines and sums; undefined when it may leave. */
export async function findHindrance(db: Queryable, day: string): Promise<string | undefined> {
  const startMs = Date.parse(`${day}T00:00:00Z`);
  const { rows } = await db.query<{ isAsked: boolean; isUnsummed: boolean; isUnpublished: boolean; closed: string }>(
    `SELECT EXISTS (SELECT FROM billing.usage_quarantine AS q WHERE ${isOpen}
         AND (rid >= $2 AND rid < $3 OR rid IS NULL AND received_at >= $4 AND received_at < $5)) AS "isAsked",
       EXISTS (SELECT FROM billing.unsummed_day WHERE day = $1 AND NOT is_detached)
         OR EXISTS (SELECT FROM billing.business_unsummed_day WHERE day = $1) AS "isUnsummed",
       EXISTS (SELECT FROM billing.funds_outbox WHERE day = $1) AS "isUnpublished",
       coalesce((SELECT max(day) FROM billing.day_close), '-infinity')::text AS closed`,
    [day, firstUuidAt(startMs), firstUuidAt(startMs + dayMs), new Date(startMs), new Date(startMs + dayMs)],
  );
  const [found] = rows;
  if (!found) throw new Error("nothing was answered");
  if (found.isAsked) return "a record of it is in quarantine and not settled";
  if (found.isUnsummed) return "its lines are not summed up";
  if (found.isUnpublished) return "a line by hand is not on the stream yet";
  // A day's file needs the lines of 61 days before it.
  const needed = dayOfMs(startMs + (oldestDays + 2) * dayMs);
  if (found.closed < needed) return `the daily close is at ${found.closed}, and needs its lines until ${needed}`;
  return undefined;
}

/** What is kept of a day that was archived. */
export async function readArchivedDay(
  db: Queryable,
  day: string,
): Promise<(ArchivedDay & { isRestored: boolean }) | undefined> {
  const { rows } = await db.query<Omit<ArchivedDay, "amountNanos"> & { amount: string; isRestored: boolean }>(
    `SELECT day, content, signature, public_key AS "publicKey", lines, amount_nanos::text AS amount,
       restored_at IS NOT NULL AS "isRestored"
     FROM billing.archived_day WHERE day = $1`,
    [day],
  );
  const [row] = rows;
  if (!row) return undefined;
  const { amount, ...archived } = row;
  return { ...archived, amountNanos: BigInt(amount) };
}

// Whoever books waits while the ledger is locked, and behind whoever waits for the lock: not for long.
const lockWaitMs = 1_000;

/**
 * Takes a day out of the ledger, which its archive has. Records in quarantine that a line of it has settled stay
 * settled. Throws when somebody reads the ledger for longer than a second: the next pass tries again.
 */
export async function leaveLedger(pool: Pool, archived: ArchivedDay): Promise<void> {
  await inTransaction(pool, async (db) => {
    await db.query(`SET LOCAL statement_timeout = ${longestMs}; SET LOCAL lock_timeout = ${lockWaitMs}`);
    await db.query(
      `INSERT INTO billing.archived_day (day, content, signature, public_key, lines, amount_nanos)
       VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (day) DO NOTHING`,
      [
        archived.day,
        archived.content,
        archived.signature,
        archived.publicKey,
        archived.lines,
        String(archived.amountNanos),
      ],
    );
    await db.query(noteSettled);
    const leaving = {
      text: "SELECT billing.leave_ledger_day($1)",
      values: [archived.day],
      query_timeout: longestMs + 5_000,
    };
    await db.query(leaving);
  });
}

/** Drops tables of lines that were read back in part a day ago. */
export async function forgetRestores(db: Queryable): Promise<void> {
  await db.query("SELECT billing.forget_restores()");
}
