import type { MessageInitShape } from "@bufbuild/protobuf";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import {
  RefusalReason,
  type Refused,
  type SubmitRequestSchema,
  type SubmitResponse,
  type Task,
} from "#proto/video/v1/video_pb.ts";
import { pause, type Stop } from "#shared/process/stop.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { CallFailure, type Failure, type FailureName } from "../failures.ts";
import type { LiveCall } from "../live-call.ts";
import { release, settleGiven, type SettlementDeps } from "../charge/settle.ts";
import type { VideoTasks } from "./tasks.ts";

type Outcome = Exclude<SubmitResponse["outcome"], { case: undefined }>;

export type AskingForVideo = {
  tasks: Pick<VideoTasks, "submit">;
  request: MessageInitShape<typeof SubmitRequestSchema>;
  /** Waits between one try and the next. */
  againMs: readonly number[];
  /** Ends the waiting. */
  stop: Stop;
};

// A try that took so long has used up what a caller can be made to wait.
const mostMs = 60_000;

/**
 * Submits a video. Asking again with the same rid is safe: the service submits it once and gives the outcome of the
 * first time. Without an outcome nobody knows here what became of it; `cause` is for the log.
 */
export async function askForVideo(asking: AskingForVideo): Promise<{ outcome?: Outcome; cause?: unknown }> {
  const { tasks, request, againMs, stop } = asking;
  const startedAtMs = performance.now();
  const stopped = stop.stopped.then(() => undefined);
  let cause: unknown;
  for (const waitMs of [0, ...againMs]) {
    if (waitMs > 0) await pause(waitMs, stop);
    if (stop.isStopped()) break;
    try {
      const answer = await Promise.race([tasks.submit(request), stopped]);
      if (answer?.outcome.case !== undefined) return { outcome: answer.outcome };
      cause = "an answer without an outcome";
    } catch (error) {
      cause = error;
    }
    if (performance.now() - startedAtMs > mostMs) break;
  }
  return { cause };
}

const failuresOfReasons: { [reason in RefusalReason]: FailureName } = {
  [RefusalReason.UNSPECIFIED]: "submission_unknown",
  [RefusalReason.REJECTED]: "video_rejected",
  [RefusalReason.RATE]: "upstream_rate",
  [RefusalReason.ACCOUNT]: "upstream_account",
  [RefusalReason.UNAVAILABLE]: "upstream_unavailable",
  [RefusalReason.UNREACHABLE]: "upstream_unreachable",
  [RefusalReason.UNKNOWN]: "submission_unknown",
  [RefusalReason.STOPPING]: "service_unavailable",
};

function failureOf({ reason, cause }: Refused): Failure {
  // The spec fixes how long to wait for each of them, whatever a provider says.
  // A reason that is newer than this relay.
  return { name: failuresOfReasons[reason] ?? "submission_unknown", cause };
}

/**
 * Closes the books of a submission: charged by the record that the service has written with the acceptance, or the hold
 * released. Gives the task. Throws a CallFailure where there is none.
 */
export function closeByOutcome(outcome: Outcome, call: LiveCall, settling: SettlementDeps): Task {
  if (outcome.case === "accepted") {
    faultPoint("relay: task accepted, its charge not in the spool");
    const { task, charge } = outcome.value;
    settleGiven(settling, call, charge);
    call.httpStatus = 200;
    if (!task) throw new CallFailure({ name: "submission_unknown", cause: "an acceptance without a task" });
    return task;
  }
  release(settling, call);
  if (outcome.case === "earlier") return outcome.value;
  call.endCause = EndCause.UPSTREAM_ERROR;
  throw new CallFailure(outcome.case === "refused" ? failureOf(outcome.value) : { name: "idempotency_key_reused" });
}
