import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { pause, type Stop } from "#shared/process/stop.ts";
import { readSubmission } from "../store/submissions.ts";
import type { SubmittedTask } from "../task.ts";

// As long as one request to a provider may take (see providers/request.ts); callers may try again.
const maxWaitMs = 120_000;
const minPauseMs = 25;
const maxPauseMs = 500;

export type WaitDeps = { pool: Pool; stop: Stop };

/**
 * Waits until a submission, which may be under way in another process, is no longer `submitting`; undefined when there
 * is none. Rejects with `unavailable` after two minutes or when this process stops.
 */
export async function awaitOutcome({ pool, stop }: WaitDeps, rid: string): Promise<SubmittedTask | undefined> {
  const untilMs = performance.now() + maxWaitMs;
  let pauseMs = minPauseMs;
  for (;;) {
    const row = await readSubmission(pool, rid);
    if (row?.state !== "submitting") return row;
    if (stop.isStopped() || performance.now() >= untilMs) throw underWay();
    await pause(pauseMs, stop);
    pauseMs = Math.min(pauseMs * 2, maxPauseMs);
  }
}

/** The error for callers that must retry later. */
export function underWay(): ServiceError {
  return new ServiceError("unavailable", "the submission is under way");
}
