import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";
import type { Queryable } from "#shared/stores/postgres.ts";
import type { SubmittedTask } from "../task.ts";
import { submittedColumns } from "./submissions.ts";

/** Whose task; `rid` undefined: from the start of a list. */
export type OwnedTask = { accountId: string; rid: string };

/** A page of an account's tasks; `afterRid` undefined: the first. */
export type Page = { accountId: string; afterRid: string | undefined; limit: number; isAscending: boolean };

/** Where a task has run. */
export type TaskLocation = {
  state: SubmittedTask["state"];
  upstream: string;
  dialect: VideoDialectName;
  upstreamId: string;
  contentUrl: string | null;
};

// The same words as the index task_account has, so that it serves these statements.
const isVisible = "deleted_at IS NULL AND state IN ('queued', 'in_progress', 'completed', 'failed')";

/** A task as its account may see it. */
export async function readTask(db: Queryable, { accountId, rid }: OwnedTask): Promise<SubmittedTask | undefined> {
  const { rows } = await db.query(
    `SELECT ${submittedColumns} FROM video_task.task WHERE rid = $1 AND account_id = $2 AND ${isVisible}`,
    [rid, accountId],
  );
  return rows[0] as SubmittedTask | undefined;
}

/** An account's tasks in the order of their rids, which is that of their submission. */
export async function listTasks(db: Queryable, { accountId, afterRid, limit, isAscending }: Page) {
  const [follows, order] = isAscending ? [">", "ASC"] : ["<", "DESC"];
  const { rows } = await db.query(
    `SELECT ${submittedColumns} FROM video_task.task
     WHERE account_id = $1 AND ($2::uuid IS NULL OR rid ${follows} $2) AND ${isVisible}
     ORDER BY rid ${order} LIMIT $3`,
    [accountId, afterRid ?? null, limit],
  );
  return rows as SubmittedTask[];
}

/** Hides a task that has ended from its account and forgets its prompt; undefined when there is none such. */
export async function hideTask(db: Queryable, { accountId, rid }: OwnedTask): Promise<SubmittedTask | undefined> {
  const { rows } = await db.query(
    `UPDATE video_task.task SET deleted_at = now(), prompt = ''
     WHERE rid = $1 AND account_id = $2 AND deleted_at IS NULL AND state IN ('completed', 'failed')
     RETURNING ${submittedColumns}`,
    [rid, accountId],
  );
  return rows[0] as SubmittedTask | undefined;
}

/** Where a task that its account may see has run. */
export async function readLocated(db: Queryable, { accountId, rid }: OwnedTask): Promise<TaskLocation | undefined> {
  const { rows } = await db.query(
    `SELECT state, upstream, dialect, upstream_id AS "upstreamId", content_url AS "contentUrl" FROM video_task.task
     WHERE rid = $1 AND account_id = $2 AND ${isVisible}`,
    [rid, accountId],
  );
  return rows[0] as TaskLocation | undefined;
}
