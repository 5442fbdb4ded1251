import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createStop, pause, type Stop } from "#shared/process/stop.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { RequestProvider } from "../providers/request.ts";
import type { LiveUpstreams } from "../catalog.ts";
import type { Metrics } from "../metrics.ts";
import { providers } from "../providers/index.ts";
import type { PollResult } from "../providers/provider.ts";
import { applyPoll, claimDue, type DueTask, type Lane } from "../store/polls.ts";
import { decide, type Transition, type TransitionRules } from "../transition.ts";

export type PollDeps = {
  pool: Pool;
  requestProvider: RequestProvider;
  upstreams: LiveUpstreams;
  metrics: Metrics;
  log: Logger;
  rules: TransitionRules;
  /** Maximum number of concurrent polls of this process; at least one per upstream. */
  maxPolls: number;
  /** How long a claimed task is not claimed again. */
  leaseMs?: number;
};

/** Runs one pass over the tasks that are due. After disposal, results of polls under way are dropped. */
export type PollPass = (() => Promise<boolean>) & Disposable;

const defaultLeaseMs = 30_000;
// Share of the lease after which a poll counts as unanswered, so that this is stored while the lease holds.
const answerShare = 2 / 3;
const patienceMs = 1_000;

type PollState = PollDeps & { leaseMs: number; underWay: Map<string, Set<Promise<void>>>; isClosed: boolean };

// The lane of tasks whose upstream is no longer in the catalog. No upstream has this name.
const nowhere = "";

/**
 * Creates the poll pass. A pass claims due tasks up to the free slots, polls their providers, and resolves when those
 * polls are done or after a second; slow polls continue and keep their slots. Resolves with true when more tasks may be
 * due. Any number of replicas may run passes concurrently. Rejects when PostgreSQL cannot be reached.
 */
export function createPollPass(deps: PollDeps): PollPass {
  const state: PollState = { leaseMs: defaultLeaseMs, ...deps, underWay: new Map(), isClosed: false };
  const pass = async (): Promise<boolean> => {
    const lanes = freeLanes(state);
    const dues = await claimDue(state.pool, lanes, state.leaseMs);
    const claimed = new Map<string, number>();
    const polls = dues.map((due) => {
      const lane = state.upstreams.current().has(due.upstream) ? due.upstream : nowhere;
      claimed.set(lane, (claimed.get(lane) ?? 0) + 1);
      return start(state, due, lane);
    });
    await waitForPolls(polls);
    return lanes.some(({ upstream = nowhere, slots }) => slots > 0 && claimed.get(upstream) === slots);
  };
  const dispose = (): void => {
    state.isClosed = true;
  };
  return Object.assign(pass, { [Symbol.dispose]: dispose });
}

// Each upstream has its share of the slots, so that one that hangs does not keep the tasks of others from being polled.
function freeLanes({ upstreams, maxPolls, underWay }: PollState): Lane[] {
  const names = [...upstreams.current().keys()];
  const share = Math.max(1, Math.floor(maxPolls / Math.max(1, names.length)));
  return [...names, nowhere].map((name) => ({
    upstream: name === nowhere ? undefined : name,
    slots: Math.max(0, share - (underWay.get(name)?.size ?? 0)),
  }));
}

function start(state: PollState, due: DueTask, lane: string): Promise<void> {
  const polls = state.underWay.get(lane) ?? new Set();
  state.underWay.set(lane, polls);
  const poll = pollTask(state, due).finally(() => polls.delete(poll));
  polls.add(poll);
  return poll;
}

async function waitForPolls(polls: Promise<void>[]): Promise<void> {
  const settled = createStop();
  void Promise.all(polls).then(settled.stop);
  await pause(patienceMs, settled);
}

async function pollTask(state: PollState, due: DueTask): Promise<void> {
  state.metrics.pollLag.observe(due.lagMs / 1_000);
  const answer = requestStatus(state, due);
  const inTime = createStop();
  const isInTime = await Promise.race([answer.then(() => true), pauseFor(state, inTime)]);
  // After the race: stopping the wait earlier would make it win.
  inTime.stop();
  if (isInTime) return apply(state, due, await answer);
  await apply(state, due, unansweredFor("no answer in time"));
  // Its slot stays taken, and an end that the provider reports late still counts.
  const result = await answer;
  if (result.state === "completed" || result.state === "failed") await apply(state, due, result);
}

async function pauseFor({ leaseMs }: PollState, inTime: Stop): Promise<boolean> {
  await pause(leaseMs * answerShare, inTime);
  return false;
}

async function requestStatus({ upstreams, requestProvider, log }: PollState, due: DueTask): Promise<PollResult> {
  const upstream = upstreams.current().get(due.upstream);
  const provider = (providers as Partial<typeof providers>)[due.dialect];
  if (!upstream || !provider)
    return unansweredFor("upstream not in the catalog, or its API not supported by this release");
  try {
    const response = await requestProvider(upstream, provider.poll.write(due.upstreamId, upstream.credential));
    return response.kind === "answer" ? provider.poll.read(response.answer) : unansweredFor(response.cause);
  } catch (error) {
    // An error of our own must not keep a task from its deadline.
    log.error({ err: error, rid: due.rid, upstream: due.upstream }, "poll failed");
    return unansweredFor("poll failed");
  }
}

const unansweredFor = (cause: string): PollResult => ({ state: "unanswered", cause, retryAfterSeconds: 0 });

async function apply(state: PollState, due: DueTask, result: PollResult): Promise<void> {
  const { rid, accountId: account, upstream } = due;
  // Nothing is lost: the task is polled again when the lease ends.
  if (state.isClosed) return;
  if (result.state === "unanswered") recordUnanswered(state, due, result.cause);
  try {
    faultPoint("video-task: poll answered, nothing written");
    const transition = decide(due, result, state.rules);
    if (await applyPoll(state.pool, due, transition)) report(state, due, transition);
    else state.log.info({ rid, account, upstream, kind: transition.kind }, "poll result superseded");
  } catch (error) {
    state.log.error({ err: error, rid, account, upstream }, "failed to store poll result");
  }
}

function recordUnanswered({ metrics, log }: PollState, due: DueTask, cause: string): void {
  const { rid, accountId: account, upstream, unanswered } = due;
  metrics.providerErrors.inc({ upstream, verb: "poll" });
  // Only the first of a row: a provider that is down would otherwise be logged for each task at each poll.
  if (unanswered === 0) log.warn({ rid, account, upstream, cause }, "poll unanswered");
}

function report({ metrics, log }: PollState, due: DueTask, transition: Transition): void {
  const { rid, accountId: account, upstream, state: from, costNanos } = due;
  faultPoint("video-task: transition written, poll not over");
  const line = { rid, account, upstream, from };
  switch (transition.kind) {
    case "waiting":
      if (transition.state !== from) log.info({ ...line, to: transition.state }, "task state changed");
      return;
    case "completed":
      metrics.ended.inc({ state: "completed", code: "" });
      return log.info({ ...line, to: "completed", refundNanos: String(transition.refundNanos) }, "task ended");
    case "failed":
      faultPoint("video-task: failure written with its refund, nothing tried");
      metrics.ended.inc({ state: "failed", code: labelOf(transition.code) });
      return log.info({ ...line, to: "failed", code: transition.code }, "task ended");
    case "watched":
      if (!transition.isLateSuccess) return;
      metrics.lateSuccesses.inc();
      log.warn(
        { ...line, costNanos: String(costNanos) },
        "task completed after it had failed; refunded already, not charged again",
      );
  }
}

const ourCodes = new Set(["timeout", "not_found", "content_policy_violation", "generation_failed", "no_video"]);

// Providers choose their codes, and a label needs a bounded set of values; the log has the codes.
const labelOf = (code: string): string => (ourCodes.has(code) ? code : "other");
