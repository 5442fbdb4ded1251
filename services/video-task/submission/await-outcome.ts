import { ServiceError } from "#shared/process/errors.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { pause, type Stop } from "#shared/process/stop.ts";
import { readSubmission } from "../store/submissions.ts";
import type { Submitted } from "../task.ts";

// As long as one question to a provider may take (see ask.ts); whoever asked may ask again.
const maxWaitMs = 120_000;
const leastPauseMs = 25;
const mostPauseMs = 500;

export type Waiting = { pool: Pool; stop: Stop };

/**
 * Reads a submission, which may be under way in another process, until it is not `submitting` any more; undefined when
 * there is none. After two minutes, or when this process stops, `unavailable`.
 */
export async function awaitOutcome({ pool, stop }: Waiting, rid: string): Promise<Submitted | undefined> {
  const untilMs = performance.now() + maxWaitMs;
  let pauseMs = leastPauseMs;
  for (;;) {
    const row = await readSubmission(pool, rid);
    if (row?.state !== "submitting") return row;
    if (stop.isStopped() || performance.now() >= untilMs) throw underWay();
    await pause(pauseMs, stop);
    pauseMs = Math.min(pauseMs * 2, mostPauseMs);
  }
}

/** The answer to whoever must ask again later. */
export function underWay(): ServiceError {
  return new ServiceError("unavailable", "the submission is under way");
}
