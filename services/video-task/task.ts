import type { RefusalReason } from "#proto/video/v1/video_pb.ts";
import type { VideoDialectName } from "#shared/catalog/video-dialects.ts";

/**
 * submitting → queued | refused | unknown; queued → in_progress; queued, in_progress → completed | failed. A task
 * that is submitting, refused or unknown counts as not accepted by a provider, and costs nothing.
 */
export type TaskState = "submitting" | "refused" | "unknown" | "queued" | "in_progress" | "completed" | "failed";

/** A submission, from its intent on. */
export type SubmittedTask = {
  rid: string;
  accountId: string;
  state: TaskState;
  requestHash: Buffer;
  model: string;
  prompt: string;
  seconds: number;
  size: string;
  progress: number;
  createdAt: Date;
  endedAt: Date | null;
  expiresAt: Date | null;
  errorCode: string | null;
  errorMessage: string | null;
  refusal: RefusalReason | null;
  retryAfterSeconds: number | null;
  /** The encoded usage.v1.UsageRecorded: as the relay sent it, final from the acceptance on. */
  charge: Buffer;
};

/** A task that is polled: one that runs, or has failed without the provider reporting it. */
export type RunningTask = {
  rid: string;
  accountId: string;
  state: "queued" | "in_progress" | "failed";
  /** The encoded usage.v1.UsageRecorded, final. */
  charge: Buffer;
  upstream: string;
  dialect: VideoDialectName;
  upstreamId: string;
  /** As it was asked for. */
  size: string;
  costNanos: bigint;
  progress: number;
  unanswered: number;
  missing: number;
  deadlineSeconds: number;
  /** Milliseconds since its acceptance. */
  ageMs: number;
};

const prefix = "video_";
const taskIdPattern = /^video_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

/** The id by which callers name a task: "video_" and its rid without dashes. */
export const taskIdOf = (rid: string): string => `${prefix}${rid.replaceAll("-", "")}`;

/** The rid of a task's id; undefined when it is none of ours. */
export function ridOfTaskId(taskId: string): string | undefined {
  const [, ...groups] = taskIdPattern.exec(taskId) ?? [];
  return groups.length === 0 ? undefined : groups.join("-");
}
