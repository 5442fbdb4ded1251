import { lostCode } from "./lost-tasks.ts";
import type { Pool } from "#shared/stores/postgres.ts";

export const moneyKinds = { charge: 1, refund: 2 } as const;

export type MoneyEvent = {
  rid: string;
  kind: (typeof moneyKinds)[keyof typeof moneyKinds];
  accountId: string;
  /** Of a refund; 0: all that was charged. */
  amountNanos: bigint;
  reason: string;
  /** Which try this is, from 1 on. */
  tries: number;
  /** Whose try this is: the end of its lease, as PostgreSQL writes it. */
  lease: string;
  /** The task's encoded usage.v1.UsageRecorded. */
  charge: Buffer;
  /** Whether nothing but its charge is known of the task. */
  isLost: boolean;
};

/**
 * Claims events that are to be tried now, for `leaseMs`, the longest due first. A refund is not due before its charge
 * is booked: the ledger gives nothing back that it has not taken.
 */
export async function claimMoneyEvents(
  pool: Pool,
  { limit, leaseMs }: { limit: number; leaseMs: number },
): Promise<MoneyEvent[]> {
  const { rows } = await pool.query(
    `WITH due AS MATERIALIZED (
       SELECT e.rid, e.kind FROM video_task.money_event AS e
       WHERE e.next_try_at <= now() AND (e.kind = $3 OR EXISTS (
         SELECT FROM video_task.money_event AS charged
         WHERE charged.rid = e.rid AND charged.kind = $3 AND charged.booked_at IS NOT NULL
       ))
       ORDER BY e.next_try_at LIMIT $1 FOR UPDATE OF e SKIP LOCKED
     )
     UPDATE video_task.money_event AS e SET tries = e.tries + 1, next_try_at = now() + $2 * interval '1 millisecond'
     FROM due JOIN video_task.task AS t USING (rid) WHERE e.rid = due.rid AND e.kind = due.kind
     RETURNING e.rid, e.kind, e.account_id AS "accountId", e.amount_nanos AS "amountNanos", e.reason, e.tries,
       e.next_try_at::text AS lease, t.charge, coalesce(t.error_code = $4, false) AS "isLost"`,
    [limit, leaseMs, moneyKinds.charge, lostCode],
  );
  return rows as MoneyEvent[];
}

/** Writes down that an event is booked; false when that was known. */
export async function markBooked(pool: Pool, { rid, kind }: MoneyEvent): Promise<boolean> {
  const { rowCount } = await pool.query(
    `UPDATE video_task.money_event SET booked_at = now(), next_try_at = NULL
     WHERE rid = $1 AND kind = $2 AND booked_at IS NULL`,
    [rid, kind],
  );
  return rowCount === 1;
}

/** Puts the next try off by `waitMs`, unless somebody else tries by now. */
export async function postpone(pool: Pool, { rid, kind, lease }: MoneyEvent, waitMs: number): Promise<void> {
  await pool.query(
    `UPDATE video_task.money_event SET next_try_at = now() + $4 * interval '1 millisecond'
     WHERE rid = $1 AND kind = $2 AND booked_at IS NULL AND next_try_at = $3::timestamptz`,
    [rid, kind, lease, waitMs],
  );
}
