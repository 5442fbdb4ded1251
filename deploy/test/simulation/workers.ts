import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { profileOf } from "./profile.ts";
import { hookStandIns } from "./stand-ins.ts";
import { addTotals, emptyTotals, joinTotals, type Totals } from "./totals.ts";

export type Range = {
  from: number;
  /** How many seeds are looked at; those between two steps belong to other workers. */
  count: number;
  step: number;
  /** Runs only worlds of this profile, the rest of the seeds is left out. */
  profile?: string | undefined;
  /** Whether the first failure ends the run. */
  stops: boolean;
};

/** Runs seeds in this process, and tells what they came to as one line of JSON. */
export async function runSeeds(range: Range, print: (line: string) => void): Promise<void> {
  hookStandIns();
  const startedAt = process.hrtime.bigint();
  const { createSimulator } = await import("./simulate.ts");
  const { simulate } = await createSimulator();
  let totals = emptyTotals();
  for (let seed = range.from; seed < range.from + range.count; seed += range.step) {
    if (range.profile !== undefined && profileOf(seed) !== range.profile) continue;
    totals = addTotals(totals, await simulate(seed));
    if (range.stops && totals.failures.length > 0) break;
  }
  const elapsedMs = Number((process.hrtime.bigint() - startedAt) / 1_000_000n);
  print(JSON.stringify({ ...totals, elapsedMs }));
}

export type Work = Omit<Range, "step"> & { workers: number; environment: NodeJS.ProcessEnv; preload?: string };

/** Runs seeds in several processes at once, each taking every so manieth. Rejects when one ends without a result. */
export async function runWorkers({ workers, environment, preload, ...range }: Work): Promise<Totals> {
  const shares = Array.from({ length: Math.min(workers, range.count) }, (_, index) => {
    return { ...range, from: range.from + index, count: range.count - index, step: workers };
  });
  const found = await Promise.all(shares.map((share) => runWorker(share, { environment, preload })));
  return found.reduce(joinTotals, emptyTotals());
}

const mainFile = fileURLToPath(import.meta.resolve("./main.ts"));

type WorkerOptions = { environment: NodeJS.ProcessEnv; preload: string | undefined };

async function runWorker(range: Range, { environment, preload }: WorkerOptions): Promise<Totals> {
  const imports = preload === undefined ? [] : ["--import", preload];
  // A world leaves much garbage that dies young.
  const child = spawn(
    process.execPath,
    ["--max-semi-space-size=64", ...imports, mainFile, "--worker", JSON.stringify(range)],
    {
      env: environment,
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  let last = "";
  for await (const line of createInterface({ input: child.stdout })) last = line;
  if (last === "") throw new Error(`the worker for seeds from ${range.from} on ended without a result`);
  return JSON.parse(last) as Totals;
}
