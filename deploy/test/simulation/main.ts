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

/** One seed, told in full; ends the process when all of it is written, which a reader that is busy holds up. */
async function runOne(seed: number): Promise<void> {
  hookStandIns();
  const { createSimulator } = await import("./simulate.ts");
  const { simulate } = await createSimulator();
  const outcome = await simulate(seed, values.trace);
  const lines = [...outcome.trace, report(addTotals(emptyTotals(), outcome))];
  for (const violation of outcome.violations) lines.push(`seed ${seed}: ${violation}`);
  const code = outcome.violations.length === 0 ? 0 : 1;
  process.stdout.write(`${lines.join("\n")}\n`, () => process.exit(code));
}

if (values.worker !== undefined) {
  await runSeeds(JSON.parse(values.worker) as Range, print);
  process.exit(0);
} else if (values.seed !== undefined) {
  await runOne(Number(values.seed));
} else {
  const range = { from: Number(values.from), count: Number(values.seeds), profile: values.profile, stops: false };
  const totals = await runWorkers({ ...range, workers: Number(values.workers), environment: process.env });
  print(report(totals));
  process.exitCode = totals.failures.length === 0 ? 0 : 1;
}
