import { ServiceError } from "#shared/errors.ts";
import type { Logger } from "#shared/log.ts";
import type { Metrics } from "./metrics.ts";
import { answerCodes, type HotStore } from "./store/hot.ts";

// Bounds the time for which one run of the script keeps all others waiting.
const holdsPerStep = 200;
const mostSteps = 500;

/**
 * Ends the holds of relay processes that have been silent for `silentMs`: each is charged at its last checkpoint and
 * the rest is freed. Replicas may do this at the same time; every hold is ended once. Rejects when Redis does not
 * answer.
 */
export async function sweepSilentRelays(
  { hot, metrics, log }: { hot: HotStore; metrics: Metrics; log: Logger },
  silentMs: number,
): Promise<void> {
  for (let step = 0; step < mostSteps; step += 1) {
    const [answer] = await hot.apply("", [["sweep", String(silentMs), String(holdsPerStep)]]);
    if (!answer) throw new ServiceError("internal", "the sweep was not answered");
    if (answer.code !== answerCodes.more) return;
    metrics.expired(answer.number);
    log.warn({ relaySession: answer.text, holds: answer.number }, "a relay went silent; its holds are ended");
  }
}
