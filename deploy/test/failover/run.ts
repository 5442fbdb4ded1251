import { setTimeout as pause } from "node:timers/promises";
import { Finding } from "#proto/billing/v1/billing_pb.ts";
import { until } from "#shared/testing/until.ts";
import { type Round, type Scenario, type ScenarioOptions, startScene } from "../chaos/scenario.ts";
import type { CallLog } from "../e2e/caller.ts";
import type { Report } from "../e2e/checker.ts";
import type { World } from "../e2e/world.ts";
import type { Drill } from "./drill.ts";

/** What a drill came to. `failed` counts sound calls that were not answered whole. */
export type Outcome = {
  name: string;
  report: Report;
  ends: string;
  failed: number;
  longestGapMs: number;
  differenceNanos: bigint;
  linesOf: World["linesOf"];
};

export type DrillOptions = Pick<ScenarioOptions, "seed" | "callers" | "hasLeases" | "say">;

const reconciledMs = 60_000;
// Each look makes a report that is kept, of which a day has 50 at most: two waits make up to 40.
const betweenLooksMs = 3_000;

/** Runs one drill on a system of its own. */
export async function runDrill(drill: Drill, options: DrillOptions): Promise<Outcome> {
  await using resources = new AsyncDisposableStack();
  const { scene, alsoAllowed = [], harm, afterwards } = await drill.stage(resources);
  const scenario = resources.use(await startScene({ ...options, ...scene }));
  const harmAndHeal = async (round: Round): Promise<void> => {
    await harm(scenario, round);
    await untilBooked(scenario);
  };
  const { report, ends, calls } = await scenario.round(harmAndHeal, { alsoAllowed });
  const { differenceNanos, problems } = await reconcile(scenario);
  report.problems.push(...problems, ...((await afterwards?.(scenario)) ?? []));
  return {
    name: drill.name,
    report,
    ends,
    failed: calls.filter(({ plan, outcome, status }) => plan.isSound && outcome !== "whole" && status !== 403).length,
    longestGapMs: longestGapOf(calls),
    differenceNanos,
    linesOf: scenario.world.linesOf,
  };
}

/** Waits until the ledger has what the stream says that it had: it is judged when it has healed. */
async function untilBooked({ world }: Scenario): Promise<void> {
  const isBooked = async (): Promise<boolean> => {
    const { report } = await world.billing.reconcile({ day: new Date().toISOString().slice(0, 10) });
    if (report?.lines.every(({ check, finding }) => check !== "R4" || finding !== Finding.WRONG)) return true;
    await pause(betweenLooksMs);
    return false;
  };
  await until("what was lost is booked again", isBooked, reconciledMs);
}

/** The longest time in which no call ended whole. */
function longestGapOf(calls: readonly CallLog[]): number {
  const ends = calls.filter(({ outcome }) => outcome === "whole").map(({ endedAtMs }) => endedAtMs);
  const pairs = ends.toSorted((one, other) => one - other);
  return Math.max(0, ...pairs.slice(1).map((end, index) => end - (pairs[index] ?? end)));
}

/** Compares ledger, stream and hot store for all of today, until nothing is wrong or it is too late for that. */
async function reconcile({ world }: Scenario): Promise<{ differenceNanos: bigint; problems: string[] }> {
  const day = new Date().toISOString().slice(0, 10);
  const look = async () => {
    const { report } = await world.billing.reconcile({ day });
    if (!report) throw new Error("billing answered without a report");
    const bad = report.lines.filter(({ finding }) => finding === Finding.WRONG || finding === Finding.UNCHECKED);
    return {
      differenceNanos: report.unexplainedNanos,
      problems: bad.map(({ check, summary, items }) => `${check}: ${summary} ${items.slice(0, 3).join("; ")}`),
    };
  };
  try {
    return await until(
      "reconciliation is clean",
      async () => {
        const found = await look();
        if (found.differenceNanos === 0n && found.problems.length === 0) return found;
        await pause(betweenLooksMs);
        throw new Error(found.problems.join("; "));
      },
      reconciledMs,
    );
  } catch {
    return look();
  }
}
