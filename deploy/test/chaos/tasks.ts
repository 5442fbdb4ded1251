import { emptyReport } from "../e2e/checker.ts";
import { emptyCounts, formatCounts, type TaskCounts } from "../e2e/task-checker.ts";
import type { FaultPoint } from "./fault-points.ts";
import type { KillPlan } from "./kills.ts";
import { taskLinkNames } from "./links.ts";
import { pausePoints, taskFaultPoints } from "./task-fault-points.ts";
import type { TaskRound, TaskRoundResult, TaskScenario } from "./task-scenario.ts";
import {
  harmTaskLink,
  pauseTaskAt,
  replaceTaskProcess,
  strikeTaskAnywhere,
  strikeTaskAt,
  type TaskVictim,
  taskVictims,
} from "./task-process-faults.ts";
import { isRight, type Verdict } from "./verdict.ts";

const killsPerRound = 20;
const killsPerHarm = 5;
// In a round without harm nothing may be lost.
const calmSubmissions = 60;

type Harm = { name: string; do: (scenario: TaskScenario, round: TaskRound) => Promise<void> };

/** What is done beside kills, in turn. */
const harms: readonly Harm[] = [
  ...pausePoints.map((point) => ({
    name: `stands still: ${point.name}`,
    do: (scenario: TaskScenario, round: TaskRound) => pauseTaskAt(scenario, round, point),
  })),
  ...taskLinkNames.flatMap((name) =>
    (["cut", "freeze"] as const).map((how) => ({
      name: `${how}: ${name}`,
      do: (scenario: TaskScenario, round: TaskRound) => harmTaskLink(scenario, round, { name, how }),
    })),
  ),
  ...(["video-task", "second video-task", "relay"] as const).map((name) => ({
    name: `replaced: ${name}`,
    do: (scenario: TaskScenario, round: TaskRound) => replaceTaskProcess(scenario, round, name),
  })),
];

type KillTarget = { victim: TaskVictim } | { point: FaultPoint };

/** Whom to kill, in turn: one at a random moment, then one at a fault point, each through its own list. */
function planTaskStrikes(wanted: string): (number: number) => KillTarget {
  const points = taskFaultPoints.filter(({ name }) => name.includes(wanted));
  if (points.length === 0) throw new Error(`no fault point of tasks has ${wanted} in its name`);
  return (number) => {
    const turn = wanted === "" ? Math.floor(number / 2) : number;
    const victim = taskVictims[turn % taskVictims.length];
    const point = points[turn % points.length];
    if (!victim || !point) throw new RangeError("nobody to kill");
    return wanted === "" && number % 2 === 0 ? { victim } : { point };
  };
}

/**
 * Kills every process that tasks need, at random moments and at every fault point of theirs, and does other harm after
 * every few kills, in rounds that are judged one by one. Ends after the kills that were asked for, or with the round in
 * which the time is over.
 */
export async function runTasks(scenario: TaskScenario, { kills, minutes, point }: KillPlan): Promise<Verdict[]> {
  const deadlineMs = performance.now() + minutes * 60_000;
  const strikeOf = planTaskStrikes(point);
  const verdicts: Verdict[] = [];
  const all = emptyCounts();
  let [done, harmed] = [0, 0];
  const judge = ({ report, counts, ends }: TaskRoundResult, verdict: Omit<Verdict, "report">): void => {
    for (const text of [ends, formatCounts(counts)]) scenario.say(`  ${text}`);
    addCounts(all, counts);
    verdicts.push({ ...verdict, report });
  };
  judge(await scenario.round((round) => round.more(calmSubmissions)), { name: "tasks, calm", kills: 0, faults: 0 });
  // What could not be killed or started again would only fail again.
  while (done < kills && performance.now() < deadlineMs && verdicts.every(isRight)) {
    const [first, firstHarm] = [done, harmed];
    const result = await scenario.round(async (round) => {
      while (done < Math.min(first + killsPerRound, kills)) {
        done += 1;
        await strike(scenario, round, { number: done, what: strikeOf(done - 1) });
        if (done % killsPerHarm !== 0) continue;
        await harm(scenario, round, harmed);
        harmed += 1;
      }
    });
    const name = `tasks, kills ${first + 1} to ${done}`;
    judge(result, { name, kills: done - first, faults: harmed - firstHarm });
  }
  scenario.say(`  in all: ${formatCounts(all)}`);
  const problems = point === "" ? lossProblems(all, done + harmed) : [];
  return [...verdicts, { name: "tasks, losses", kills: 0, faults: 0, report: { ...emptyReport(), problems } }];
}

async function strike(
  scenario: TaskScenario,
  round: TaskRound,
  { number, what }: { number: number; what: KillTarget },
) {
  scenario.say(`  kill ${number}: ${"victim" in what ? `${what.victim}, anywhere` : what.point.name}`);
  if ("victim" in what) await strikeTaskAnywhere(scenario, round, what.victim);
  else await strikeTaskAt(scenario, round, what.point);
}

async function harm(scenario: TaskScenario, round: TaskRound, turn: number): Promise<void> {
  const one = harms[turn % harms.length];
  if (!one) throw new RangeError("no harm to do");
  scenario.say(`  ${one.name}`);
  await one.do(scenario, round);
}

// README, "What is judged": one for each harm. Kills that are aimed at the one point where each loses one lose more.
function lossProblems({ losses }: TaskCounts, harms: number): string[] {
  return losses > harms ? [`${losses} tasks were lost by ${harms} kills and other harm`] : [];
}

function addCounts(sum: TaskCounts, { chargedNanos, refundedNanos, ...counts }: TaskCounts): void {
  sum.chargedNanos += chargedNanos;
  sum.refundedNanos += refundedNanos;
  for (const [name, count] of Object.entries(counts)) sum[name as keyof typeof counts] += count;
}
