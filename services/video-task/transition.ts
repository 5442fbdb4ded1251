import { dayMs } from "#shared/process/clock.ts";
import type { Look } from "./providers/provider.ts";
import type { Running } from "./task.ts";
import { undeliveredNanos } from "./undelivered.ts";

/** What a look changes of a task. */
export type Transition =
  /** It goes on: look again after `waitMs`. */
  | {
      kind: "waiting";
      state: "queued" | "in_progress";
      progress: number;
      unanswered: number;
      missing: number;
      waitMs: number;
    }
  /** `refundNanos` is what was charged for a length that was not delivered; 0: nothing is given back. */
  | {
      kind: "completed";
      refundNanos: bigint;
      expiresAtMs: number | undefined;
      contentUrl: string | undefined;
    }
  /** All that was charged is given back. `watchMs`: the provider may still bring it to an end, look after so long. */
  | { kind: "failed"; code: string; message: string; watchMs: number | undefined }
  /** A task that has failed without the provider's word is looked at again, or not any more (undefined). */
  | { kind: "watched"; waitMs: number | undefined; isLateSuccess: boolean };

export type TransitionRules = {
  lookMs: number;
  graceMs: number;
  /** 0 to below 1. */
  random: () => number;
};

type Waiting = Extract<Transition, { kind: "waiting" }>;
type Failed = Extract<Transition, { kind: "failed" }>;

const mostBackoffMs = 60_000;
const mostRetryAfterMs = 300_000;
const watchMs = 3_600_000;
// A provider that has just taken a task, or restores its own database, may not find it for a moment.
const missingLooks = 3;

/**
 * What a look at a task means; the only place that decides how a task ends.
 * A provider's word ends a task at any time. What it has not ended at the deadline fails, once a look has been answered
 * since, or the grace is over: looks without an answer end nothing before.
 */
export function decide(task: Running, look: Look, rules: TransitionRules): Transition {
  if (task.state === "failed") return watch(task, look, rules);
  const { state } = look;
  const pastDeadlineMs = task.ageMs - task.deadlineSeconds * 1_000;
  if (state === "completed") return complete(task, look);
  if (state === "failed") return { kind: "failed", code: look.code, message: look.message, watchMs: undefined };
  if (state === "missing" && task.missing + 1 >= missingLooks) return lose(rules);
  const patienceMs = state === "unanswered" ? rules.graceMs : 0;
  return pastDeadlineMs >= patienceMs ? timeOut(rules) : goOn(task, look, rules);
}

function complete({ charge }: Running, look: Extract<Look, { state: "completed" }>): Transition {
  const { seconds, expiresAtMs, contentUrl } = look;
  return { kind: "completed", refundNanos: undeliveredNanos(charge, seconds), expiresAtMs, contentUrl };
}

// Neither is the provider's word that nothing will come, so that the task is watched: a success that comes late is the
// operator's to bear, and he must hear of it.
function timeOut(rules: TransitionRules): Failed {
  const message = "The video was not completed in time";
  return { kind: "failed", code: "timeout", message, watchMs: drawn(watchMs, rules) };
}

function lose(rules: TransitionRules): Failed {
  const message = "The model service does not know of this video any more";
  return { kind: "failed", code: "not_found", message, watchMs: drawn(watchMs, rules) };
}

function goOn(task: Running, look: Look, rules: TransitionRules): Waiting {
  const kept = { kind: "waiting", state: task.state as Waiting["state"], progress: task.progress } as const;
  switch (look.state) {
    case "unanswered": {
      const unanswered = task.unanswered + 1;
      const askedMs = Math.min(Math.max(look.retryAfterSeconds || 0, 0) * 1_000, mostRetryAfterMs);
      const waitMs = Math.max(backedOff(unanswered, rules), askedMs);
      // That nobody answered takes nothing back of what was answered before.
      return { ...kept, unanswered, missing: task.missing, waitMs };
    }
    case "missing": {
      const missing = task.missing + 1;
      return { ...kept, unanswered: 0, missing, waitMs: backedOff(missing, rules) };
    }
    case "in_progress": {
      const told = Math.min(Math.trunc(look.progress ?? 0) || 0, 100);
      const progress = Math.max(task.progress, told);
      return { ...kept, state: "in_progress", progress, unanswered: 0, missing: 0, waitMs: drawn(rules.lookMs, rules) };
    }
    // "queued": a provider that says so of a task that had begun has moved it, for the caller it goes on.
    default:
      return { ...kept, unanswered: 0, missing: 0, waitMs: drawn(rules.lookMs, rules) };
  }
}

function watch({ ageMs, deadlineSeconds }: Running, { state }: Look, rules: TransitionRules): Transition {
  const isOver = state === "completed" || state === "failed" || ageMs >= deadlineSeconds * 1_000 + dayMs;
  const isLateSuccess = state === "completed";
  return { kind: "watched", waitMs: isOver ? undefined : drawn(watchMs, rules), isLateSuccess };
}

// Drawn, so that tasks taken together are not looked at together for ever.
function drawn(meanMs: number, { random }: TransitionRules): number {
  return Math.round(meanMs * (0.5 + random()));
}

function backedOff(times: number, rules: TransitionRules): number {
  const { lookMs } = rules;
  return drawn(Math.min(lookMs * 2 ** Math.min(times, 30), Math.max(mostBackoffMs, lookMs)), rules);
}
