import type { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import type { Callers } from "#shared/grpc/callers.ts";

/** Who may call what here. */
export const callers: Callers<typeof VideoTaskService> = {
  submit: ["relay"],
  findSubmission: ["relay"],
  conclude: ["relay"],
  getTask: ["relay", "console", "admin"],
  listTasks: ["relay", "console", "admin"],
  deleteTask: ["relay"],
  locateContent: ["relay"],
};
