import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  DeleteTaskRequest,
  DeleteTaskResponseSchema,
  GetTaskRequest,
  GetTaskResponseSchema,
  ListTasksRequest,
  ListTasksResponseSchema,
} from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { requireId, requireLimit, requireTaskId } from "../check-request.ts";
import { hideTask, listTasks, readTask, type OwnedTask } from "../store/tasks.ts";
import { toTask } from "../task-message.ts";

// What an account does with its tasks. Another account's task and one that is deleted do not exist: `not_found`.

/** Tells a task. */
export async function getTask(
  pool: Pool,
  request: GetTaskRequest,
): Promise<MessageInitShape<typeof GetTaskResponseSchema>> {
  const row = await readTask(pool, ownedBy(request));
  if (!row) throw noSuchTask();
  return { task: toTask(row) };
}

/** Lists an account's tasks. The task that a page begins after may be deleted since: it only marks a place. */
export async function listTasksOf(
  pool: Pool,
  { accountId, afterTaskId, limit, isAscending }: ListTasksRequest,
): Promise<MessageInitShape<typeof ListTasksResponseSchema>> {
  requireId("account_id", accountId);
  const afterRid = afterTaskId === "" ? undefined : requireTaskId(afterTaskId);
  const wanted = requireLimit(limit);
  // One more than is told, which says whether more follow.
  const rows = await listTasks(pool, { accountId, afterRid, limit: wanted + 1, isAscending });
  return { tasks: rows.slice(0, wanted).map(toTask), hasMore: rows.length > wanted };
}

/** Hides a task from its account; its money and its row stay. `failed_precondition` while it has not ended. */
export async function deleteTask(
  pool: Pool,
  request: DeleteTaskRequest,
): Promise<MessageInitShape<typeof DeleteTaskResponseSchema>> {
  const owned = ownedBy(request);
  const row = await hideTask(pool, owned);
  if (row) return { task: toTask(row) };
  if (await readTask(pool, owned)) throw new ServiceError("failed_precondition", "the task has not ended");
  throw noSuchTask();
}

/** Whose task a request names. */
export function ownedBy({ accountId, taskId }: { accountId: string; taskId: string }): OwnedTask {
  return { accountId: requireId("account_id", accountId), rid: requireTaskId(taskId) };
}

/** For a task that does not exist, or not for this account. */
export function noSuchTask(): ServiceError {
  return new ServiceError("not_found", "there is no such task");
}
