import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  RefusalReason,
  TaskState,
  type RefusedSchema,
  type SubmitResponseSchema,
  type TaskSchema,
} from "#proto/video/v1/video_pb.ts";
import { taskIdOf, type SubmittedTask } from "./task.ts";

const states: Partial<Record<SubmittedTask["state"], TaskState>> = {
  queued: TaskState.QUEUED,
  in_progress: TaskState.IN_PROGRESS,
  completed: TaskState.COMPLETED,
  failed: TaskState.FAILED,
};

/** Whether a provider has taken it, so that it is a task of its account. */
export const isTask = ({ state }: SubmittedTask): boolean => state in states;

/** A task as its account sees it. */
export function toTask(row: SubmittedTask): MessageInitShape<typeof TaskSchema> {
  const { state, endedAt, expiresAt, errorCode } = row;
  return {
    taskId: taskIdOf(row.rid),
    state: states[state] ?? TaskState.UNSPECIFIED,
    model: row.model,
    prompt: row.prompt,
    seconds: row.seconds,
    size: row.size,
    progress: row.progress,
    createdAt: timestampFromDate(row.createdAt),
    ...(state === "completed" && endedAt && { completedAt: timestampFromDate(endedAt) }),
    ...(expiresAt && { expiresAt: timestampFromDate(expiresAt) }),
    ...(errorCode !== null && { error: { code: errorCode, message: row.errorMessage ?? "" } }),
  };
}

/** Why no provider has taken it. */
export function toRefused(row: SubmittedTask): MessageInitShape<typeof RefusedSchema> {
  return {
    reason: row.refusal ?? RefusalReason.UNKNOWN,
    retryAfterSeconds: row.retryAfterSeconds ?? 0,
    cause: row.errorMessage ?? "",
  };
}

/** What a submission has come to, for whoever submitted its rid. It is not `submitting` any more. */
export function toOutcome(row: SubmittedTask): MessageInitShape<typeof SubmitResponseSchema> {
  return isTask(row)
    ? { outcome: { case: "accepted", value: { task: toTask(row), charge: row.charge } } }
    : { outcome: { case: "refused", value: toRefused(row) } };
}
