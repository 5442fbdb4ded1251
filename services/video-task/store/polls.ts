import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import type { RunningTask } from "../task.ts";
import type { Transition } from "../transition.ts";

/** A claimed task. */
export type DueTask = RunningTask & {
  /** Identifies this poll: the end of its lease, as PostgreSQL writes it. */
  lease: string;
  /** Milliseconds since the poll was due. */
  lagMs: number;
};

/** How many tasks of an upstream may be claimed; `undefined` stands for all upstreams without a lane of their own. */
export type Lane = { upstream: string | undefined; slots: number };

const runs = "state IN ('queued', 'in_progress')";
const milliseconds = (parameter: string): string => `${parameter} * interval '1 millisecond'`;

/**
 * Claims due tasks, the longest due first. Nobody else claims them within `leaseMs`. When the process dies, the poll is
 * never applied, and the task is due again when the lease ends.
 */
export async function claimDue(pool: Pool, lanes: readonly Lane[], leaseMs: number): Promise<DueTask[]> {
  const { rows } = await pool.query(
    // Materialized: joined in, the limited statement might be run once for each row that it yields.
    `WITH due AS MATERIALIZED (
       SELECT found.rid, found.next_look_at
       FROM unnest($1::text[], $2::int[]) AS lane (upstream, slots)
       CROSS JOIN LATERAL (
         SELECT t.rid, t.next_look_at FROM video_task.task AS t
         WHERE t.next_look_at <= now()
           AND (t.upstream = lane.upstream OR (lane.upstream IS NULL AND t.upstream <> ALL ($3)))
         ORDER BY t.next_look_at LIMIT lane.slots FOR UPDATE SKIP LOCKED
       ) AS found
     )
     UPDATE video_task.task AS t SET next_look_at = now() + ${milliseconds("$4")}
     FROM due WHERE t.rid = due.rid
     RETURNING t.rid, t.account_id AS "accountId", t.state, t.charge, t.upstream, t.dialect,
       t.upstream_id AS "upstreamId", t.size, t.cost_nanos AS "costNanos", t.progress, t.unanswered, t.missing,
       t.deadline_seconds AS "deadlineSeconds", t.next_look_at::text AS lease,
       extract(epoch FROM now() - t.accepted_at)::float8 * 1000 AS "ageMs",
       extract(epoch FROM now() - due.next_look_at)::float8 * 1000 AS "lagMs"`,
    [
      lanes.map(({ upstream }) => upstream ?? null),
      lanes.map(({ slots }) => slots),
      lanes.flatMap(({ upstream }) => upstream ?? []),
      leaseMs,
    ],
  );
  return rows as DueTask[];
}

/**
 * Applies the transition of a poll and records the money it moves in one statement. Resolves with false when nothing
 * changes: the task has ended before, or another process has claimed it since, after which only an end reported by the
 * provider counts.
 */
export async function applyPoll(db: Queryable, due: DueTask, transition: Transition): Promise<boolean> {
  const change = changes[transition.kind] as (
    db: Queryable,
    due: DueTask,
    transition: Transition,
  ) => Promise<number | null>;
  return (await change(db, due, transition)) === 1;
}

type Change<K> = (db: Queryable, due: DueTask, transition: Extract<Transition, { kind: K }>) => Promise<number | null>;

const changes: { [K in Transition["kind"]]: Change<K> } = {
  waiting: async (db, { rid, lease }, { state, progress, unanswered, missing, waitMs }) => {
    const { rowCount } = await db.query(
      `UPDATE video_task.task SET state = CASE state WHEN 'in_progress' THEN state ELSE $3 END,
         progress = greatest(progress, $4), unanswered = $5, missing = $6,
         next_look_at = now() + ${milliseconds("$7")}
       WHERE rid = $1 AND ${runs} AND next_look_at = $2::timestamptz`,
      [rid, lease, state, progress, unanswered, missing, waitMs],
    );
    return rowCount;
  },
  completed: async (db, { rid }, { refundNanos, expiresAtMs, contentUrl }) => {
    const { rowCount } = await db.query(
      // A refund with an amount of 0 would refund everything.
      `WITH ended AS (
         UPDATE video_task.task SET state = 'completed', progress = 100, ended_at = now(), next_look_at = NULL,
           expires_at = $2, content_url = $3
         WHERE rid = $1 AND ${runs}
         RETURNING rid, account_id
       ), refunded AS (
         INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, next_try_at)
         SELECT rid, 2, account_id, $4, 'video shorter or smaller than asked for', now() FROM ended WHERE $4 > 0::bigint
       )
       SELECT FROM ended`,
      [rid, expiresAtMs === undefined ? null : new Date(expiresAtMs), contentUrl ?? null, refundNanos],
    );
    return rowCount;
  },
  failed: async (db, { rid, lease }, { code, message, watchMs }) => {
    const { rowCount } = await db.query(
      // A failure the provider has not reported itself holds only while nobody else has claimed the task.
      `WITH ended AS (
         UPDATE video_task.task SET state = 'failed', ended_at = now(), error_code = $2, error_message = $3,
           next_look_at = now() + ${milliseconds("$4::float8")}
         WHERE rid = $1 AND ${runs} AND ($4::float8 IS NULL OR next_look_at = $5::timestamptz)
         RETURNING rid, account_id, cost_nanos
       ), refunded AS (
         INSERT INTO video_task.money_event (rid, kind, account_id, amount_nanos, reason, next_try_at)
         SELECT rid, 2, account_id, 0, 'video failed: ' || $2, now() FROM ended WHERE cost_nanos > 0
       )
       SELECT FROM ended`,
      [rid, code, message, watchMs ?? null, lease],
    );
    return rowCount;
  },
  watched: async (db, { rid, lease }, { waitMs }) => {
    const { rowCount } = await db.query(
      `UPDATE video_task.task SET next_look_at = now() + ${milliseconds("$3::float8")}
       WHERE rid = $1 AND state = 'failed' AND next_look_at = $2::timestamptz`,
      [rid, lease, waitMs ?? null],
    );
    return rowCount;
  },
};
