import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Metrics } from "../metrics.ts";
import { answerCodes, type HotOperation, type HotStore } from "../store/hot.ts";

// Bounds the time for which one run of the script keeps all others waiting.
const holdsPerStep = 200;
const maxSteps = 500;

// Longer than any call lasts without a checkpoint. Only a relay that has forgotten a call lets it go on for so long: a
// Redis that lost its last moments may hold money for calls which are over.
const forgottenMs = 2 * 60 * 60 * 1_000;

type SweepDeps = { hot: HotStore; metrics: Metrics; log: Logger };

/**
 * Ends the holds of relay processes that have been silent for `relaySilentMs`, and single holds of living ones that
 * gave no sign of life for two hours, or none since a loss of Redis that is `relaySilentMs` ago: each is charged at its
 * last checkpoint and the rest is freed. Replicas may do this at the same time; every hold is ended once. Rejects when
 * Redis does not answer.
 */
export async function sweep(deps: SweepDeps, relaySilentMs: number): Promise<void> {
  await sweepAll(
    deps,
    ["sweep", String(relaySilentMs), String(holdsPerStep)],
    "a relay went silent; its holds are ended",
  );
  const forgotten: HotOperation = ["sweep-forgotten", String(forgottenMs), String(relaySilentMs), String(holdsPerStep)];
  await sweepAll(deps, forgotten, "holds without a sign of life are ended");
  await sweepAll(deps, ["sweep-leases", String(holdsPerStep)], "leases that were not given back are ended");
}

async function sweepAll({ hot, metrics, log }: SweepDeps, operation: HotOperation, message: string): Promise<void> {
  for (let step = 0; step < maxSteps; step += 1) {
    const [answer] = await hot.apply("", [operation]);
    if (!answer) throw new ServiceError("internal", "the sweep was not answered");
    if (answer.code !== answerCodes.more) return;
    metrics.expired(answer.number);
    faultPoint("auth-quota: within a sweep");
    log.warn({ relaySession: answer.text, holds: answer.number }, message);
  }
}
