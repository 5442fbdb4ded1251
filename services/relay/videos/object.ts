import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { TaskState, type Task } from "#proto/video/v1/video_pb.ts";

const statuses: Record<TaskState, string> = {
  [TaskState.UNSPECIFIED]: "queued",
  [TaskState.QUEUED]: "queued",
  [TaskState.IN_PROGRESS]: "in_progress",
  [TaskState.COMPLETED]: "completed",
  [TaskState.FAILED]: "failed",
};

const unixSeconds = (at: Timestamp | undefined): number | null => (at ? Number(at.seconds) : null);

/** A task as a Video of the OpenAI API. Fields without a value are null there, not left out. */
export function videoObject(task: Task): object {
  const { taskId, state, model, progress, prompt, seconds, size, error } = task;
  return {
    id: taskId,
    object: "video",
    model,
    status: statuses[state],
    progress,
    created_at: unixSeconds(task.createdAt),
    completed_at: unixSeconds(task.completedAt),
    expires_at: unixSeconds(task.expiresAt),
    error: error ? { code: error.code, message: error.message } : null,
    prompt: prompt || null,
    seconds: String(seconds),
    size,
    remixed_from_video_id: null,
  };
}

/** A page of tasks. */
export function videoList(tasks: Task[], hasMore: boolean): object {
  const [first, last] = [tasks[0], tasks.at(-1)];
  return {
    object: "list",
    data: tasks.map(videoObject),
    has_more: hasMore,
    first_id: first?.taskId ?? null,
    last_id: last?.taskId ?? null,
  };
}

export const deletedVideo = (id: string): object => ({ id, object: "video.deleted", deleted: true });
