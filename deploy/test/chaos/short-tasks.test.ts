import assert from "node:assert/strict";
import { after, test } from "node:test";
import { formatReport } from "../e2e/checker.ts";
import { formatCounts } from "../e2e/task-checker.ts";
import { taskFaultPoints } from "./task-fault-points.ts";
import { startTaskScene } from "./task-scenario.ts";
import { pauseTaskAt, strikeTaskAnywhere, strikeTaskAt } from "./task-process-faults.ts";

// A short form of the phase `tasks` of `npm run test:chaos`; SEED repeats a run.
const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 1_000_000));
const scenario = await startTaskScene({ seed, callers: 6, say: () => undefined });
after(() => scenario[Symbol.asyncDispose]());

function pointNamed(part: string) {
  const point = taskFaultPoints.find(({ name }) => name.includes(part));
  assert.ok(point, part);
  return point;
}

const deaths = ["provider has taken it", "refund booked"];

test("two replicas of video-task, one of them dies or stands still: each task is charged or refunded once", async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const { report, counts, ends } = await scenario.round(async (round) => {
    for (const part of deaths) await strikeTaskAt(scenario, round, pointNamed(part));
    await strikeTaskAnywhere(scenario, round, "postgres");
    await pauseTaskAt(scenario, round, pointNamed("lease checked"));
  });
  t.diagnostic(ends);
  t.diagnostic(formatReport(report));
  t.diagnostic(formatCounts(counts));
  assert.deepEqual(report.problems, []);
  assert.ok(counts.completed > 0 && counts.refunds > 0);
});
