import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { hookStandIns } from "./stand-ins.ts";
import { addTotals, emptyTotals, report } from "./totals.ts";
import { runSeeds, runWorkers, type Range } from "./workers.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    trace: { type: "boolean", default: false },
    workers: { type: "string", default: String(availableParallelism()) },
    profile: { type: "string" },
    worker: { type: "string" },
  },
});

const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** One seed, told in full. */
async function runOne(seed: number): Promise<boolean> {
  hookStandIns();
  const { createSimulator } = await import("./simulate.ts");
  const { simulate } = await createSimulator();
  const outcome = await simulate(seed, values.trace);
  for (const line of outcome.trace) print(line);
  print(report(addTotals(emptyTotals(), outcome)));
  for (const violation of outcome.violations) print(`seed ${seed}: ${violation}`);
  return outcome.violations.length === 0;
}

if (values.worker !== undefined) {
  await runSeeds(JSON.parse(values.worker) as Range, print);
  process.exit(0);
} else if (values.seed !== undefined) {
  process.exit((await runOne(Number(values.seed))) ? 0 : 1);
} else {
  const range = { from: Number(values.from), count: Number(values.seeds), profile: values.profile, stops: false };
  const totals = await runWorkers({ ...range, workers: Number(values.workers), environment: process.env });
  print(report(totals));
  process.exitCode = totals.failures.length === 0 ? 0 : 1;
}
