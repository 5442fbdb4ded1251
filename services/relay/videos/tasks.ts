import { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import { toServiceError, ServiceError, type ErrorCode } from "#shared/process/errors.ts";
import type { GrpcCredentials } from "#shared/grpc/credentials.ts";
import { connectGrpc, unaryClient, type UnaryClient } from "#shared/grpc/grpc.ts";
import { CallFailure, type Failure } from "../failures.ts";

/** The service that submits videos and follows them. Failures are ServiceErrors. */
export type VideoTasks = UnaryClient<typeof VideoTaskService> & {
  /** Resolves when the service is connected. Rejects after two seconds without. */
  ready: () => Promise<void>;
};

// Longer than the service lets a provider take.
const submitMs = 150_000;
const readMs = 10_000;
const readyMs = 2_000;

/** Connects to the service of videos, in the background and again for ever; closed by its disposer. */
export function connectVideoTasks(address: string, credentials?: GrpcCredentials): VideoTasks & Disposable {
  const channel = connectGrpc(address, credentials, "video-task");
  const { submit, findSubmission } = unaryClient(VideoTaskService, channel, submitMs);
  const ready = (): Promise<void> =>
    new Promise((resolve, reject) => {
      channel.waitForReady(Date.now() + readyMs, (error) => {
        if (error) reject(new ServiceError("unavailable", "video-task is not connected", error));
        else resolve();
      });
    });
  const quick = unaryClient(VideoTaskService, channel, readMs);
  return { ...quick, submit, findSubmission, ready, [Symbol.dispose]: () => channel[Symbol.dispose]() };
}

/**
 * What the service answers. Throws a CallFailure: what a code of error means to the caller by `meanings`, else
 * `service_unavailable`, with the service's words for the log only.
 */
export async function answerOf<Answer>(
  answer: Promise<Answer>,
  meanings: Partial<Record<ErrorCode, Failure>> = {},
): Promise<Answer> {
  try {
    return await answer;
  } catch (thrown) {
    const { code, message } = toServiceError(thrown);
    const cause = `video-task: ${code}: ${message}`;
    throw new CallFailure({ ...(meanings[code] ?? { name: "service_unavailable" }), cause });
  }
}
