import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import {
  TaskSchema,
  TaskState,
  VideoTaskService,
  type ConcludeRequest,
  type SubmitRequest,
  type Task,
} from "#proto/video/v1/video_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { serveGrpc, unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";

type Handlers = UnaryHandlers<typeof VideoTaskService>;

/** A real gRPC server in the place of the service of videos: it takes every task, unless the test says otherwise. */
export type TaskServer = AsyncDisposable & {
  port: number;
  /** What it was asked to submit, and to conclude, every time. */
  submitted: SubmitRequest[];
  concluded: ConcludeRequest[];
  /** Its tasks by id, with their accounts. */
  tasks: Map<string, { accountId: string; task: Task }>;
  /** Replaces what it does. */
  script: Partial<Handlers>;
};

/** The charge of a submission as the service makes it final: the same bytes every time. */
export function chargeOf({ charge, routes }: SubmitRequest): Uint8Array {
  const upstream = routes[0]?.upstream ?? "";
  return toBinary(UsageRecordedSchema, { ...create(UsageRecordedSchema), ...charge, upstream });
}

/** The id of the task of a rid. */
export const taskIdOf = (rid: string): string => `video_${rid.replaceAll("-", "")}`;

const absent = (): never => {
  throw new ServiceError("not_found", "there is no such task");
};

function acceptance(server: Pick<TaskServer, "tasks">, request: SubmitRequest) {
  const { rid = "", accountId = "", modelRequested: model = "" } = request.charge ?? {};
  const { prompt, seconds, size } = request;
  const taskId = taskIdOf(rid);
  const state = TaskState.QUEUED;
  const task = create(TaskSchema, { taskId, state, model, prompt, seconds, size, createdAt: timestampFromMs(1_000) });
  if (!server.tasks.has(taskId)) server.tasks.set(taskId, { accountId, task });
  return { task, charge: chargeOf(request) };
}

/** Serves on a port (0: any); disposal cuts every call, as the death of the process would. */
export async function startTaskServer(port = 0): Promise<TaskServer> {
  const state: Omit<TaskServer, "port" | keyof AsyncDisposable> = {
    submitted: [],
    concluded: [],
    tasks: new Map(),
    script: {},
  };
  const taskOf = (accountId: string, taskId: string): Task => {
    const found = state.tasks.get(taskId);
    return found?.accountId === accountId ? found.task : absent();
  };
  const usual: Handlers = {
    submit: async (request) => ({ outcome: { case: "accepted", value: acceptance(state, request) } }),
    findSubmission: async () => ({}),
    conclude: async () => ({}),
    getTask: async ({ accountId, taskId }) => ({ task: taskOf(accountId, taskId) }),
    listTasks: async ({ accountId }) => ({
      tasks: [...state.tasks.values()].filter((one) => one.accountId === accountId).map(({ task }) => task),
      hasMore: false,
    }),
    deleteTask: async ({ accountId, taskId }) => {
      const task = taskOf(accountId, taskId);
      if (task.state !== TaskState.COMPLETED && task.state !== TaskState.FAILED)
        throw new ServiceError("failed_precondition", "the task runs");
      state.tasks.delete(taskId);
      return { task };
    },
    locateContent: async ({ accountId, taskId }) => {
      if (taskOf(accountId, taskId).state !== TaskState.COMPLETED)
        throw new ServiceError("failed_precondition", "the task is not completed");
      return { upstream: "somewhere", url: "http://127.0.0.1:1/file" };
    },
  };
  const handlers: Handlers = {
    submit: (request) => {
      state.submitted.push(request);
      return (state.script.submit ?? usual.submit)(request);
    },
    conclude: (request) => {
      state.concluded.push(request);
      return (state.script.conclude ?? usual.conclude)(request);
    },
    findSubmission: (request) => (state.script.findSubmission ?? usual.findSubmission)(request),
    getTask: (request) => (state.script.getTask ?? usual.getTask)(request),
    listTasks: (request) => (state.script.listTasks ?? usual.listTasks)(request),
    deleteTask: (request) => (state.script.deleteTask ?? usual.deleteTask)(request),
    locateContent: (request) => (state.script.locateContent ?? usual.locateContent)(request),
  };
  const service = unaryHandlers(VideoTaskService, handlers, createLog("test", "silent"));
  const listener = await serveGrpc([[VideoTaskService, service]], { host: "127.0.0.1", port, drainMs: 0 });
  return { ...state, port: listener.port, [Symbol.asyncDispose]: () => listener[Symbol.asyncDispose]() };
}

/** A task as the service tells it. */
export function taskWith(init: MessageInitShape<typeof TaskSchema>): Task {
  return create(TaskSchema, init);
}
