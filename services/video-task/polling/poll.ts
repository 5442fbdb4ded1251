import type { Logger } from "#shared/process/log.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createStop, pause, type Stop } from "#shared/process/stop.ts";
import type { Ask } from "../providers/request.ts";
import type { LiveUpstreams } from "../catalog.ts";
import type { Metrics } from "../metrics.ts";
import { providers } from "../providers/index.ts";
import type { Look } from "../providers/provider.ts";
import { applyLook, claimDue, type Due, type Lane } from "../store/looks.ts";
import { decide, type Transition, type TransitionRules } from "../transition.ts";

export type LookParts = {
  pool: Pool;
  ask: Ask;
  upstreams: LiveUpstreams;
  metrics: Metrics;
  log: Logger;
  rules: TransitionRules;
  /** Looks under way at once from this process; at least one for each upstream. */
  maxLooks: number;
  /** How long nobody else looks at a task that was claimed. */
  leaseMs?: number;
};

/** A pass over what is due. After disposal, looks that are under way end without a word. */
export type LookPass = (() => Promise<boolean>) & Disposable;

const usualLeaseMs = 30_000;
// Of the lease: what is then not answered counts as unanswered, so that this is written down while the lease holds.
const answerShare = 2 / 3;
const patienceMs = 1_000;

type Looking = LookParts & { leaseMs: number; underWay: Map<string, Set<Promise<void>>>; isClosed: boolean };

// The lane of tasks whose upstream the catalog does not name any more. No upstream has this name.
const nowhere = "";

/**
 * Makes the pass that looks at tasks. A pass claims what is due up to the free places, looks, and resolves when those
 * looks are done, or after a second: slow ones go on and keep their places. True when more may be due. Any number of
 * replicas may make passes at once. Rejects when PostgreSQL cannot be asked.
 */
export function createLookPass(parts: LookParts): LookPass {
  const looking: Looking = { leaseMs: usualLeaseMs, ...parts, underWay: new Map(), isClosed: false };
  const pass = async (): Promise<boolean> => {
    const lanes = freeLanes(looking);
    const dues = await claimDue(looking.pool, lanes, looking.leaseMs);
    const claimed = new Map<string, number>();
    const looks = dues.map((due) => {
      const lane = looking.upstreams.current().has(due.upstream) ? due.upstream : nowhere;
      claimed.set(lane, (claimed.get(lane) ?? 0) + 1);
      return start(looking, due, lane);
    });
    await settle(looks);
    return lanes.some(({ upstream = nowhere, places }) => places > 0 && claimed.get(upstream) === places);
  };
  const dispose = (): void => {
    looking.isClosed = true;
  };
  return Object.assign(pass, { [Symbol.dispose]: dispose });
}

// Each upstream has its share of the places, so that one which hangs does not keep others' tasks from being looked at.
function freeLanes({ upstreams, maxLooks, underWay }: Looking): Lane[] {
  const names = [...upstreams.current().keys()];
  const share = Math.max(1, Math.floor(maxLooks / Math.max(1, names.length)));
  return [...names, nowhere].map((name) => ({
    upstream: name === nowhere ? undefined : name,
    places: Math.max(0, share - (underWay.get(name)?.size ?? 0)),
  }));
}

function start(looking: Looking, due: Due, lane: string): Promise<void> {
  const looks = looking.underWay.get(lane) ?? new Set();
  looking.underWay.set(lane, looks);
  const look = lookAt(looking, due).finally(() => looks.delete(look));
  looks.add(look);
  return look;
}

async function settle(looks: Promise<void>[]): Promise<void> {
  const settled = createStop();
  void Promise.all(looks).then(settled.stop);
  await pause(patienceMs, settled);
}

async function lookAt(looking: Looking, due: Due): Promise<void> {
  looking.metrics.lookLag.observe(due.lagMs / 1_000);
  const answer = ask(looking, due);
  const inTime = createStop();
  const isInTime = await Promise.race([answer.then(() => true), pauseFor(looking, inTime)]);
  // Behind the race: a wait that is stopped before would win it.
  inTime.stop();
  if (isInTime) return apply(looking, due, await answer);
  await apply(looking, due, unansweredFor("no answer in time"));
  // Its place stays taken, and a provider's word that comes late still is its word.
  const look = await answer;
  if (look.state === "completed" || look.state === "failed") await apply(looking, due, look);
}

async function pauseFor({ leaseMs }: Looking, inTime: Stop): Promise<boolean> {
  await pause(leaseMs * answerShare, inTime);
  return false;
}

async function ask({ upstreams, ask: askProvider, log }: Looking, due: Due): Promise<Look> {
  const upstream = upstreams.current().get(due.upstream);
  const provider = (providers as Partial<typeof providers>)[due.dialect];
  if (!upstream || !provider) return unansweredFor("the catalog has no such upstream, or this release not its API");
  try {
    const asked = await askProvider(upstream, provider.look.write(due.upstreamId, upstream.credential));
    return asked.kind === "answer" ? provider.look.read(asked.answer) : unansweredFor(asked.cause);
  } catch (error) {
    // A fault of ours must not keep a task from its deadline.
    log.error({ err: error, rid: due.rid, upstream: due.upstream }, "look failed");
    return unansweredFor("look failed");
  }
}

const unansweredFor = (cause: string): Look => ({ state: "unanswered", cause, retryAfterSeconds: 0 });

async function apply(looking: Looking, due: Due, look: Look): Promise<void> {
  const { rid, accountId: account, upstream } = due;
  // Nothing is lost: it is looked at again when the lease is over.
  if (looking.isClosed) return;
  if (look.state === "unanswered") noteUnanswered(looking, due, look.cause);
  try {
    const transition = decide(due, look, looking.rules);
    if (await applyLook(looking.pool, due, transition)) report(looking, due, transition);
    else looking.log.info({ rid, account, upstream, kind: transition.kind }, "another look was first");
  } catch (error) {
    looking.log.error({ err: error, rid, account, upstream }, "look not written down");
  }
}

function noteUnanswered({ metrics, log }: Looking, due: Due, cause: string): void {
  const { rid, accountId: account, upstream, unanswered } = due;
  metrics.providerErrors.inc({ upstream, verb: "look" });
  // The first of a row; a provider that is away is not told again for each of its tasks at each look.
  if (unanswered === 0) log.warn({ rid, account, upstream, cause }, "look not answered");
}

function report({ metrics, log }: Looking, due: Due, transition: Transition): void {
  const { rid, accountId: account, upstream, state: from, costNanos } = due;
  const line = { rid, account, upstream, from };
  switch (transition.kind) {
    case "waiting":
      if (transition.state !== from) log.info({ ...line, to: transition.state }, "task goes on");
      return;
    case "completed":
      metrics.ended.inc({ state: "completed", code: "" });
      return log.info({ ...line, to: "completed", refundNanos: String(transition.refundNanos) }, "task has ended");
    case "failed":
      metrics.ended.inc({ state: "failed", code: labelOf(transition.code) });
      return log.info({ ...line, to: "failed", code: transition.code }, "task has ended");
    case "watched":
      if (!transition.isLateSuccess) return;
      metrics.lateSuccesses.inc();
      log.warn(
        { ...line, costNanos: String(costNanos) },
        "completed after it had failed: refunded, and not charged again",
      );
  }
}

const ourCodes = new Set(["timeout", "not_found", "content_policy_violation", "generation_failed", "no_video"]);

// A label takes values from a small set, and providers choose their codes; the log has them.
const labelOf = (code: string): string => (ourCodes.has(code) ? code : "other");
