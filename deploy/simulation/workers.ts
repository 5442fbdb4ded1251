import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { hookStandIns } from "./stand-ins.ts";
import { addTotals, emptyTotals, joinTotals, type Totals } from "./totals.ts";

export type Range = { from: number; count: number };

/** Runs seeds in this process, and tells what they came to as one line of JSON. */
export async function runSeeds({ from, count }: Range, print: (line: string) => void): Promise<void> {
  hookStandIns();
  const startedAt = process.hrtime.bigint();
  const { createSimulator } = await import("./simulate.ts");
  const { simulate } = await createSimulator();
  let totals = emptyTotals();
  const stopsAtFailure = process.env["STOP_AT_FAILURE"] !== undefined;
  for (let seed = from; seed < from + count; seed += 1) {
    totals = addTotals(totals, await simulate(seed));
    if (stopsAtFailure && totals.failures.length > 0) break;
  }
  const elapsedMs = Number((process.hrtime.bigint() - startedAt) / 1_000_000n);
  print(JSON.stringify({ ...totals, elapsedMs }));
}

export type Work = Range & { workers: number; environment: NodeJS.ProcessEnv; preload?: string };

/** Runs seeds in several processes at once. Rejects when one of them ends without a result. */
export async function runWorkers({ from, count, workers, ...started }: Work): Promise<Totals> {
  const share = Math.ceil(count / workers);
  const ranges = Array.from({ length: workers }, (_, index) => {
    const first = from + index * share;
    return { from: first, count: Math.min(share, from + count - first) };
  });
  const found = await Promise.all(ranges.filter((range) => range.count > 0).map((range) => runWorker(range, started)));
  return found.reduce(joinTotals, emptyTotals());
}

const mainFile = fileURLToPath(import.meta.resolve("./main.ts"));

type Started = Pick<Work, "environment" | "preload">;

async function runWorker({ from, count }: Range, { environment, preload }: Started): Promise<Totals> {
  const imports = preload === undefined ? [] : ["--import", preload];
  const range = ["--from", String(from), "--seeds", String(count)];
  const child = spawn(process.execPath, [...imports, mainFile, "--worker", ...range], {
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let last = "";
  for await (const line of createInterface({ input: child.stdout })) last = line;
  if (last === "") throw new Error(`the worker for seeds from ${from} on ended without a result`);
  return JSON.parse(last) as Totals;
}
