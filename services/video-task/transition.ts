import { dayMs } from "#shared/process/clock.ts";
import type { PollResult } from "./providers/provider.ts";
import type { RunningTask } from "./task.ts";
import { undeliveredNanos } from "./undelivered.ts";

/** What a poll changes about a task. */
export type Transition =
  /** The task continues: poll again after `waitMs`. */
  | {
      kind: "waiting";
      state: "queued" | "in_progress";
      progress: number;
      unanswered: number;
      missing: number;
      waitMs: number;
    }
  /** `refundNanos`: what was charged for length or pixels that were not delivered; 0 for no refund. */
  | {
      kind: "completed";
      refundNanos: bigint;
      expiresAtMs: number | undefined;
      contentUrl: string | undefined;
    }
  /** The whole charge is refunded. `watchMs`: when to poll again, as the provider may still complete the task. */
  | { kind: "failed"; code: string; message: string; watchMs: number | undefined }
  /** A task that failed without the provider reporting it is polled again after `waitMs`, or never (undefined). */
  | { kind: "watched"; waitMs: number | undefined; isLateSuccess: boolean };

export type TransitionRules = {
  pollMs: number;
  graceMs: number;
  /** 0 to below 1. */
  random: () => number;
};

type WaitingTransition = Extract<Transition, { kind: "waiting" }>;
type FailedTransition = Extract<Transition, { kind: "failed" }>;

const maxBackoffMs = 60_000;
const maxRetryAfterMs = 300_000;
const watchMs = 3_600_000;
// A provider that has just taken a task, or restores its own database, may not find it for a moment.
const maxMissingPolls = 3;

/**
 * Decides what a poll result means for a task; the only place that decides how a task ends.
 * An end reported by the provider ends the task at any time. At the deadline, a task fails with the first poll that is
 * answered, or when the grace period is over; unanswered polls end nothing before that.
 */
export function decide(task: RunningTask, result: PollResult, rules: TransitionRules): Transition {
  if (task.state === "failed") return watch(task, result, rules);
  const { state } = result;
  const pastDeadlineMs = task.ageMs - task.deadlineSeconds * 1_000;
  if (state === "completed") return complete(task, result);
  if (state === "failed") return { kind: "failed", code: result.code, message: result.message, watchMs: undefined };
  if (state === "missing" && task.missing + 1 >= maxMissingPolls) return lose(rules);
  const patienceMs = state === "unanswered" ? rules.graceMs : 0;
  return pastDeadlineMs >= patienceMs ? timeOut(rules) : goOn(task, result, rules);
}

function complete({ charge, size }: RunningTask, result: Extract<PollResult, { state: "completed" }>): Transition {
  const { expiresAtMs, contentUrl } = result;
  return { kind: "completed", refundNanos: undeliveredNanos(charge, result, size), expiresAtMs, contentUrl };
}

// In both cases the provider has not reported an end, so the task is watched: the operator pays for a late success and
// must hear of it.
function timeOut(rules: TransitionRules): FailedTransition {
  const message = "The video was not completed in time";
  return { kind: "failed", code: "timeout", message, watchMs: drawn(watchMs, rules) };
}

function lose(rules: TransitionRules): FailedTransition {
  const message = "The model service does not know of this video any more";
  return { kind: "failed", code: "not_found", message, watchMs: drawn(watchMs, rules) };
}

function goOn(task: RunningTask, result: PollResult, rules: TransitionRules): WaitingTransition {
  const kept = { kind: "waiting", state: task.state as WaitingTransition["state"], progress: task.progress } as const;
  switch (result.state) {
    case "unanswered": {
      const unanswered = task.unanswered + 1;
      const askedMs = Math.min(Math.max(result.retryAfterSeconds || 0, 0) * 1_000, maxRetryAfterMs);
      const waitMs = Math.max(backedOff(unanswered, rules), askedMs);
      // An unanswered poll does not undo earlier answers.
      return { ...kept, unanswered, missing: task.missing, waitMs };
    }
    case "missing": {
      const missing = task.missing + 1;
      return { ...kept, unanswered: 0, missing, waitMs: backedOff(missing, rules) };
    }
    case "in_progress": {
      const told = Math.min(Math.trunc(result.progress ?? 0) || 0, 100);
      const progress = Math.max(task.progress, told);
      return { ...kept, state: "in_progress", progress, unanswered: 0, missing: 0, waitMs: drawn(rules.pollMs, rules) };
    }
    // "queued": a provider that says so of a task that had begun has moved it, for the caller it goes on.
    default:
      return { ...kept, unanswered: 0, missing: 0, waitMs: drawn(rules.pollMs, rules) };
  }
}

function watch({ ageMs, deadlineSeconds }: RunningTask, { state }: PollResult, rules: TransitionRules): Transition {
  const isOver = state === "completed" || state === "failed" || ageMs >= deadlineSeconds * 1_000 + dayMs;
  const isLateSuccess = state === "completed";
  return { kind: "watched", waitMs: isOver ? undefined : drawn(watchMs, rules), isLateSuccess };
}

// Randomized, so that tasks submitted together are not polled together for ever.
function drawn(meanMs: number, { random }: TransitionRules): number {
  return Math.round(meanMs * (0.5 + random()));
}

function backedOff(times: number, rules: TransitionRules): number {
  const { pollMs } = rules;
  return drawn(Math.min(pollMs * 2 ** Math.min(times, 30), Math.max(maxBackoffMs, pollMs)), rules);
}
