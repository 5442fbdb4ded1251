import type { Queryable } from "#shared/stores/postgres.ts";

/** The code of a task of which nothing is known but its charge. */
export const lostCode = "lost";

const lostMessage = "The video was lost by the service and is refunded.";

/** What the charge of a video tells of its task. */
export type ChargedTask = {
  rid: string;
  accountId: string;
  model: string;
  seconds: number;
  createdAt: Date;
  acceptedAt: Date;
  upstream: string;
  costNanos: bigint;
  /** Whether something of it was not refunded yet. */
  isPaid: boolean;
  /** The encoded usage.v1.UsageRecorded. */
  charge: Uint8Array;
};

/** Up to which line charges are checked, locked for the transaction; undefined while another process checks. */
export async function lockChecked(db: Queryable): Promise<string | undefined> {
  const { rows } = await db.query<{ until: string }>(
    `SELECT until_line_id AS until FROM video_task.charges_checked FOR UPDATE SKIP LOCKED`,
  );
  return rows[0]?.until;
}

export async function writeChecked(db: Queryable, untilLineId: string): Promise<void> {
  await db.query("UPDATE video_task.charges_checked SET until_line_id = $1", [untilLineId]);
}

/**
 * Makes those that have no task `failed` ones, each with the refund of what was paid, in one statement; returns their
 * rids. A task that is known is left as it is. No provider is asked about them: its name for them is lost, too.
 */
export async function insertLost(db: Queryable, charged: readonly ChargedTask[]): Promise<string[]> {
  if (charged.length === 0) return [];
  const { rows } = await db.query<{ rid: string }>(
    `WITH charged AS (
       SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::timestamptz[], $6::timestamptz[],
         $7::text[], $8::bigint[], $9::bool[], $10::bytea[])
         AS c (rid, account_id, model, seconds, created_at, accepted_at, upstream, cost_nanos, is_paid, charge)
     ), lost AS (
       INSERT INTO video_task.task AS t (rid, account_id, state, request_hash, model, prompt, seconds, size,
         deadline_seconds, charge, created_at, accepted_at, ended_at, upstream, dialect, upstream_id, cost_nanos,
         error_code, error_message)
       SELECT rid, account_id, 'failed', decode(repeat('00', 32), 'hex'), model, '', seconds, '', 1, charge, created_at,
         accepted_at, now(), upstream, '', 'lost ' || rid, cost_nanos, $11, $12 FROM charged
       ON CONFLICT (rid) DO UPDATE SET state = 'failed', lease_until = NULL, charge = excluded.charge,
         accepted_at = excluded.accepted_at, ended_at = now(), upstream = excluded.upstream, dialect = '',
         upstream_id = excluded.upstream_id, cost_nanos = excluded.cost_nanos, error_code = excluded.error_code,
         error_message = excluded.error_message
       WHERE t.state IN ('submitting', 'refused', 'unknown') AND t.account_id = excluded.account_id
       RETURNING t.rid, t.account_id, t.cost_nanos
     ), money AS (
       INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, next_try_at, booked_at)
       SELECT rid, 1, account_id, cost_nanos, 'accepted', NULL, now() FROM lost
       UNION ALL
       SELECT lost.rid, 2, lost.account_id, 0, 'video lost: nothing but its charge is known', now(), NULL
       FROM lost JOIN charged USING (rid) WHERE is_paid
     )
     SELECT rid FROM lost`,
    [
      charged.map(({ rid }) => rid),
      charged.map(({ accountId }) => accountId),
      charged.map(({ model }) => model),
      charged.map(({ seconds }) => seconds),
      charged.map(({ createdAt }) => createdAt),
      charged.map(({ acceptedAt }) => acceptedAt),
      charged.map(({ upstream }) => upstream),
      charged.map(({ costNanos }) => costNanos),
      charged.map(({ isPaid }) => isPaid),
      charged.map(({ charge }) => Buffer.from(charge)),
      lostCode,
      lostMessage,
    ],
  );
  return rows.map(({ rid }) => rid);
}
