import type { Logger } from "#shared/process/log.ts";
import type { FailureName } from "../failures.ts";
import type { Metrics } from "../metrics.ts";
import type { Answer } from "./send.ts";
import { retryAfterMs, type Place, type UpstreamHealth, type Verdict } from "./health.ts";

/** Who is told what an attempt to reach an upstream has shown. */
export type AttemptDeps = { health: UpstreamHealth; metrics: Metrics; log: Logger };

export type Attempt = { rid: string; place: Place };

/** What became of an attempt: the failure of an upstream's answer, or of its connection once the request was sent. */
export type AttemptOutcome = FailureName | "answered" | "not_sent" | "client_gone";

/** Counts an attempt and keeps what it says about the upstream's health. */
export function learn(
  { health, metrics, log }: AttemptDeps,
  { rid, place }: Attempt,
  outcome: AttemptOutcome,
  verdict: Verdict,
): void {
  const upstream = place.upstream.name;
  metrics.upstreamAttempts.inc({ upstream, outcome });
  const change = health.judge(place, verdict, performance.now());
  if (change) log.warn({ rid, upstream }, `circuit ${change}`);
}

/** Keeps what an error answer says about the upstream: what the caller did wrong says nothing, nor does overload. */
export function learnFromError(
  learning: AttemptDeps,
  attempt: Attempt,
  answer: Pick<Answer, "status" | "headers">,
  name: FailureName,
): void {
  // Not implemented is no sign of ill health.
  const isDown = answer.status >= 500 && answer.status !== 501 && name !== "upstream_overloaded";
  learn(learning, attempt, name, isDown ? "down" : "up");
  const { health, metrics, log } = learning;
  const { rid, place } = attempt;
  const upstream = place.upstream.name;
  const waitMs = retryAfterMs(answer.headers["retry-after"], Date.now());
  const reason = coolDown(health, place, name, waitMs);
  if (!reason) return;
  metrics.coolDowns.inc({ upstream, reason });
  log.warn({ rid, upstream, upstreamModel: place.model, reason, waitMs }, "upstream is left alone");
}

/** Leaves the upstream alone where its answer asks for it; says why. */
function coolDown(health: UpstreamHealth, place: Place, name: FailureName, waitMs: number | undefined) {
  const nowMs = performance.now();
  if (name === "upstream_account") return health.coolDownAccount(place, nowMs) && "account";
  if (name === "upstream_rate") return health.coolDown(place, "rate", waitMs, nowMs) && "rate";
  const isShortOfRoom = name === "upstream_unavailable" || name === "upstream_overloaded";
  if (!isShortOfRoom || waitMs === undefined) return false;
  return health.coolDown(place, "unavailable", waitMs, nowMs) && "unavailable";
}
