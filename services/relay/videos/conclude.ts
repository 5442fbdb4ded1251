import { pause, type Stop } from "#shared/process/stop.ts";
import type { LiveCall } from "../live-call.ts";
import { release, settleGiven, type SettlementDeps } from "../charge/settle.ts";
import type { VideoTasks } from "./tasks.ts";
import type { VideoBounds } from "./videos.ts";

export type ConclusionDeps = {
  tasks: Pick<VideoTasks, "conclude">;
  settling: SettlementDeps;
  bounds: Pick<VideoBounds, "concludeAgainMs" | "maxConcludeTries">;
  /** Ends the waiting when the process leaves; the hold then ends as that of a relay that is gone. */
  stop: Stop;
};

/** `unknown`: released too, but a provider may have taken it. */
export type Conclusion = "charged" | "released" | "unknown";

/**
 * Asks once what became of a submission and closes its books: charged when a provider has taken it, released when
 * nobody has and nobody will. Rejects with a ServiceError while that is not known.
 */
export async function concludeOnce(
  call: LiveCall,
  { tasks, settling }: Pick<ConclusionDeps, "tasks" | "settling">,
): Promise<Conclusion> {
  const { rid, accountId } = call;
  const { charge, isUnknown } = await tasks.conclude({ rid, accountId });
  if (charge) {
    settleGiven(settling, call, charge);
    return "charged";
  }
  release(settling, call);
  return isUnknown ? "unknown" : "released";
}

const mostWaitMs = 30_000;

/**
 * Asks until the service says what became of a submission. Given up after many tries, the hold is released: a task that
 * a provider has taken after all comes into the ledger from the service's own database.
 */
export async function concludeLater(call: LiveCall, concluding: ConclusionDeps): Promise<void> {
  const { settling, bounds, stop } = concluding;
  const { rid } = call;
  let waitMs = bounds.concludeAgainMs;
  let cause: unknown;
  for (let tries = 0; tries < bounds.maxConcludeTries; tries += 1) {
    await pause(waitMs, stop);
    if (stop.isStopped()) return;
    waitMs = Math.min(waitMs * 2, mostWaitMs);
    try {
      const conclusion = await concludeOnce(call, concluding);
      return settling.log.warn({ rid, conclusion }, "a submission whose answer was lost is concluded");
    } catch (error) {
      cause = error;
    }
  }
  settling.log.error({ rid, err: cause }, "what became of a submission was not told, its hold is released");
  release(settling, call);
}
