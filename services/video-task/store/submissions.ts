import { RefusalReason } from "#proto/video/v1/video_pb.ts";
import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";
import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import type { SubmittedTask } from "../task.ts";

/** What is written down of a submission before a provider hears of it. */
export type Intent = {
  rid: string;
  accountId: string;
  idempotencyKey: string | undefined;
  requestHash: Uint8Array;
  model: string;
  prompt: string;
  seconds: number;
  size: string;
  deadlineSeconds: number;
  /** The encoded usage.v1.UsageRecorded as the relay sent it. */
  charge: Uint8Array;
  /** The upstream that is asked first. */
  upstream: string;
};

/** Where a task runs from its acceptance on, and what it is charged. */
export type Acceptance = {
  upstream: string;
  dialect: VideoDialectName;
  upstreamId: string;
  costNanos: bigint;
  /** The encoded usage.v1.UsageRecorded, final. */
  charge: Uint8Array;
  /** Milliseconds from the acceptance to the first poll. */
  firstPollMs: number;
};

/** Why no provider is known to have taken a task. `cause` is for operators. */
export type Refusal = { reason: RefusalReason; retryAfterSeconds: number; cause: string };

/** The columns of a Submitted, under its names. */
export const submittedColumns = `rid, account_id AS "accountId", state, request_hash AS "requestHash", model, prompt,
  seconds, size, progress, created_at AS "createdAt", ended_at AS "endedAt", expires_at AS "expiresAt",
  error_code AS "errorCode", error_message AS "errorMessage", refusal, retry_after_seconds AS "retryAfterSeconds",
  charge`;

const milliseconds = (place: string): string => `${place} * interval '1 millisecond'`;

/**
 * Writes the intent down, `submitting` for `leaseMs` from now by PostgreSQL's clock. False when the rid or the
 * account's idempotency key has been used: the one unique row is what lets one process of all send it.
 */
export async function insertIntent(db: Queryable, intent: Intent, leaseMs: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `INSERT INTO video_task.task (rid, account_id, state, idempotency_key, request_hash, model, prompt, seconds, size,
       deadline_seconds, charge, upstream, lease_until)
     VALUES ($1, $2, 'submitting', $3, $4, $5, $6, $7, $8, $9, $10, $11, now() + ${milliseconds("$12")})
     ON CONFLICT DO NOTHING`,
    [
      intent.rid,
      intent.accountId,
      intent.idempotencyKey ?? null,
      intent.requestHash,
      intent.model,
      intent.prompt,
      intent.seconds,
      intent.size,
      intent.deadlineSeconds,
      intent.charge,
      intent.upstream,
      leaseMs,
    ],
  );
  return rowCount === 1;
}

/** Puts a submission off limits that has not come: `refused`, so that nothing is sent should it come. */
export async function insertTombstone(db: Queryable, rid: string, accountId: string): Promise<void> {
  // What is not known of a submission that nobody has seen is filled with what the columns allow.
  await db.query(
    `INSERT INTO video_task.task (rid, account_id, state, request_hash, model, prompt, seconds, size, deadline_seconds,
       charge, refusal, retry_after_seconds, error_message)
     VALUES ($1, $2, 'refused', decode(repeat('00', 32), 'hex'), '', '', 1, '', 1, '', $3, 0,
       'concluded before it came')
     ON CONFLICT (rid) DO NOTHING`,
    [rid, accountId, RefusalReason.STOPPING],
  );
}

/** Renews the lease and names the upstream that is asked; false when the submission is not `submitting` any more. */
export async function renewLease(
  db: Queryable,
  { rid, upstream, leaseMs }: { rid: string; upstream: string; leaseMs: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE video_task.task SET lease_until = now() + ${milliseconds("$3")}, upstream = $2
     WHERE rid = $1 AND state = 'submitting'`,
    [rid, upstream, leaseMs],
  );
  return rowCount === 1;
}

/**
 * A provider has taken the task: state, final charge and the event that books it, all or nothing. Undefined when the
 * submission is not `submitting` any more: then nothing has changed.
 */
export async function acceptSubmission(
  db: Queryable,
  rid: string,
  given: Acceptance,
): Promise<SubmittedTask | undefined> {
  const { rows } = await db.query(
    `WITH accepted AS (
       UPDATE video_task.task SET state = 'queued', lease_until = NULL, upstream = $2, dialect = $3, upstream_id = $4,
         cost_nanos = $5, charge = $6, accepted_at = now(), next_look_at = now() + ${milliseconds("$7")}
       WHERE rid = $1 AND state = 'submitting'
       RETURNING *
     ), charged AS (
       INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, next_try_at)
       SELECT rid, 1, account_id, cost_nanos, 'accepted', now() FROM accepted
     )
     SELECT ${submittedColumns} FROM accepted`,
    [rid, given.upstream, given.dialect, given.upstreamId, given.costNanos, given.charge, given.firstPollMs],
  );
  return rows[0] as SubmittedTask | undefined;
}

/** Whether this acceptance is what the row says: a commit whose answer was lost. */
export async function isAcceptedAs(db: Queryable, rid: string, given: Acceptance): Promise<boolean> {
  const { rowCount } = await db.query(
    `SELECT FROM video_task.task WHERE rid = $1 AND upstream = $2 AND upstream_id = $3`,
    [rid, given.upstream, given.upstreamId],
  );
  return rowCount === 1;
}

/**
 * Nobody is known to have taken the task. A refused one gives its idempotency key back: it may be submitted anew, while
 * one that is unknown must not. Undefined when the submission is not `submitting` any more.
 */
export async function refuseSubmission(
  db: Queryable,
  rid: string,
  refusal: Refusal,
): Promise<SubmittedTask | undefined> {
  const state = refusal.reason === RefusalReason.UNKNOWN ? "unknown" : "refused";
  const { rows } = await db.query(
    `UPDATE video_task.task SET state = $2, lease_until = NULL, refusal = $3, retry_after_seconds = $4,
       error_message = $5, idempotency_key = CASE WHEN $2 = 'unknown' THEN idempotency_key END
     WHERE rid = $1 AND state = 'submitting'
     RETURNING ${submittedColumns}`,
    [rid, state, refusal.reason, refusal.retryAfterSeconds, refusal.cause],
  );
  return rows[0] as SubmittedTask | undefined;
}

/** A submission by its rid, of any account and in any state. */
export async function readSubmission(db: Queryable, rid: string): Promise<SubmittedTask | undefined> {
  const { rows } = await db.query(`SELECT ${submittedColumns} FROM video_task.task WHERE rid = $1`, [rid]);
  return rows[0] as SubmittedTask | undefined;
}

/** The submission that holds an account's idempotency key. */
export async function readSubmissionOfKey(
  db: Queryable,
  accountId: string,
  idempotencyKey: string,
): Promise<SubmittedTask | undefined> {
  const { rows } = await db.query(
    `SELECT ${submittedColumns} FROM video_task.task WHERE account_id = $1 AND idempotency_key = $2`,
    [accountId, idempotencyKey],
  );
  return rows[0] as SubmittedTask | undefined;
}

/** A submission whose process has said nothing for longer than its lease. */
export type ExpiredSubmission = { rid: string; accountId: string; upstream: string };

/** Makes up to 1,000 submissions whose lease has ended `unknown`, and tells them. */
export async function expireLeases(pool: Pool): Promise<ExpiredSubmission[]> {
  const { rows } = await pool.query(
    `UPDATE video_task.task SET state = 'unknown', lease_until = NULL, refusal = $1, retry_after_seconds = 0,
       error_message = 'the lease has ended'
     WHERE rid IN (
       SELECT rid FROM video_task.task WHERE state = 'submitting' AND lease_until < now()
       ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED
     )
     RETURNING rid, account_id AS "accountId", upstream`,
    [RefusalReason.UNKNOWN],
  );
  return rows as ExpiredSubmission[];
}
