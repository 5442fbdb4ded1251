import type { UntypedServiceImplementation } from "@grpc/grpc-js";
import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { asUnavailable } from "#shared/stores/postgres.ts";
import { unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import { deleteTask, getTask, listTasksOf } from "./account-tasks.ts";
import { conclude } from "../submission/conclude.ts";
import { findSubmission } from "../submission/find-submission.ts";
import { locateContent } from "./locate-content.ts";
import { createSubmit, type SubmitDeps } from "../submission/submit.ts";

/** The calls of video.v1.VideoTaskService. A database that cannot be reached is `unavailable`. */
export function buildCalls(deps: SubmitDeps): UntypedServiceImplementation {
  const { pool } = deps;
  const submit = createSubmit(deps);
  const handlers: UnaryHandlers<typeof VideoTaskService> = {
    submit: (request) => answer(submit(request)),
    findSubmission: (request) => answer(findSubmission(deps, request)),
    conclude: (request) => answer(conclude(pool, request)),
    getTask: (request) => answer(getTask(pool, request)),
    listTasks: (request) => answer(listTasksOf(pool, request)),
    deleteTask: (request) => answer(deleteTask(pool, request)),
    locateContent: (request) => answer(locateContent(deps, request)),
  };
  return unaryHandlers(VideoTaskService, handlers, deps.log);
}

async function answer<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asUnavailable(error, "the tasks cannot be reached now");
  }
}
