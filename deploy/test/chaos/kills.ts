import { faultPoints } from "./fault-points.ts";
import type { Scenario } from "./scenario.ts";
import { strikeAnywhere, strikeAt, type Victim, victimNames } from "./process-faults.ts";
import type { Verdict } from "./verdict.ts";

const killsPerRound = 20;

export type KillPlan = {
  kills: number;
  minutes: number;
  /** Only fault points with this in their names; empty: all of them, and random moments in between. */
  point: string;
};

type KillTarget = { victim: Victim } | { point: (typeof faultPoints)[number] };

/** Whom to kill, in turn: one at a random moment, then one at a fault point, each through its own list. */
function planStrikes(wanted: string): (number: number) => KillTarget {
  const points = faultPoints.filter(({ name }) => name.includes(wanted));
  if (points.length === 0) throw new Error(`no fault point has ${wanted} in its name`);
  return (number) => {
    const turn = wanted === "" ? Math.floor(number / 2) : number;
    const victim = victimNames[turn % victimNames.length];
    const point = points[turn % points.length];
    if (!victim || !point) throw new RangeError("nobody to kill");
    return wanted === "" && number % 2 === 0 ? { victim } : { point };
  };
}

/**
 * Kills every process in turn, at random moments and at every fault point, in rounds that are judged one by one. Ends
 * after the kills that were asked for, or with the round in which the time is over.
 */
export async function runKills(scenario: Scenario, { kills, minutes, point }: KillPlan): Promise<Verdict[]> {
  const deadlineMs = performance.now() + minutes * 60_000;
  const strikeOf = planStrikes(point);
  const verdicts: Verdict[] = [];
  let done = 0;
  while (done < kills && performance.now() < deadlineMs) {
    const first = done;
    const { report, ends } = await scenario.round(async (round) => {
      while (done < Math.min(first + killsPerRound, kills)) {
        const strike = strikeOf(done);
        scenario.say(`  kill ${done + 1}: ${"victim" in strike ? `${strike.victim}, anywhere` : strike.point.name}`);
        done += 1;
        if ("victim" in strike) await strikeAnywhere(scenario, round, strike.victim);
        else await strikeAt(scenario, round, strike.point);
      }
    });
    scenario.say(`  ${ends}`);
    verdicts.push({ name: `kills ${first + 1} to ${done}`, kills: done - first, faults: 0, report });
    // What could not be killed or started again would only fail again.
    if (report.problems.length > 0) break;
  }
  return verdicts;
}
