import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { TaskSchema, TaskState, type Task, type VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";

/** From memory: video tasks, which tests set. */
export function createVideoNeighbour() {
  /** Tasks of each account, newest first. */
  const tasks = new Map<string, Task[]>();
  const own = (accountId: string): Task[] => tasks.get(accountId) ?? [];
  const handlers = {
    listTasks: async ({ accountId, afterTaskId, limit }) => {
      const all = own(accountId);
      const start = afterTaskId === "" ? 0 : all.findIndex(({ taskId }) => taskId === afterTaskId) + 1;
      if (afterTaskId !== "" && start === 0) throw new ServiceError("not_found", `${afterTaskId} does not exist`);
      return { tasks: all.slice(start, start + limit), hasMore: all.length > start + limit };
    },
    getTask: async ({ accountId, taskId }) => {
      const task = own(accountId).find((one) => one.taskId === taskId);
      if (!task) throw new ServiceError("not_found", `${taskId} does not exist`);
      return { task };
    },
  } satisfies Partial<UnaryHandlers<typeof VideoTaskService>>;
  /** Adds a task that is queued unless it says otherwise, and tells its id. */
  const addTask = (accountId: string, change: MessageInitShape<typeof TaskSchema> = {}): string => {
    const number = [...tasks.values()].flat().length;
    const taskId = `video_0199f2a0000070008000${String(number).padStart(12, "0")}`;
    const createdAt = timestampFromDate(new Date("2026-11-20T10:00:00Z"));
    const usual = {
      taskId,
      state: TaskState.QUEUED,
      model: "video-fast",
      prompt: "A cat",
      seconds: 8,
      size: "1280x720",
    };
    const task = create(TaskSchema, { ...usual, createdAt, ...change });
    tasks.set(accountId, [task, ...own(accountId)]);
    return taskId;
  };
  return { handlers, tasks, addTask };
}
