import type { Queryable } from "#shared/stores/postgres.ts";
import type { TaskState } from "../task.ts";

/** What is open, as all replicas see it; ages in seconds, 0 where nothing is open. */
export type OpenWork = {
  tasks: { state: TaskState; count: number }[];
  oldestOpenSeconds: number;
  moneyOpen: number;
  moneyOldestSeconds: number;
};

const secondsSince = (column: string): string => `coalesce(extract(epoch FROM now() - min(${column})), 0)::float8`;

/**
 * Counts what is open, and what has ended of the rids of the last hour: of a day, these would be a million rows of a
 * busy service, read by every replica every few seconds.
 */
export async function readGauges(db: Queryable): Promise<OpenWork> {
  const { rows: tasks } = await db.query<OpenWork["tasks"][number]>(
    // By indexes: those that run have a next poll, those that are submitted a lease, and a rid begins with its time.
    `SELECT state, count(*)::int AS count FROM (
       SELECT state FROM video_task.task WHERE next_look_at IS NOT NULL AND state IN ('queued', 'in_progress')
       UNION ALL
       SELECT state FROM video_task.task WHERE state = 'submitting'
       UNION ALL
       SELECT state FROM video_task.task WHERE state IN ('refused', 'unknown', 'completed', 'failed') AND rid >=
         rpad(lpad(to_hex((extract(epoch FROM now() - interval '1 hour') * 1000)::bigint), 12, '0'), 32, '0')::uuid
     ) AS found GROUP BY state`,
  );
  const { rows: ages } = await db.query<Omit<OpenWork, "tasks">>(
    `SELECT (
       SELECT ${secondsSince("created_at")} FROM video_task.task
       WHERE (next_look_at IS NOT NULL AND state IN ('queued', 'in_progress')) OR state = 'submitting'
     ) AS "oldestOpenSeconds", count(*)::int AS "moneyOpen", ${secondsSince("created_at")} AS "moneyOldestSeconds"
     FROM video_task.money_event WHERE next_try_at IS NOT NULL`,
  );
  const [open] = ages;
  if (!open) throw new Error("an aggregate without a row");
  return { tasks, ...open };
}
