import { cpus } from "node:os";

/** What happened between the two ends of a window. */
export type Metered = {
  elapsedMs: number;
  /** Microseconds of CPU by reader. */
  cpuUs: Record<string, number>;
  /** How much of all cores was used by whatever has no reader: 0 on a machine that does nothing else. */
  othersPercent: number;
};

/** Reads microseconds of CPU that were used so far; NaN where there is nothing to read. */
export type CpuReader = () => number;

/** Begins a window; the function that it returns ends it. */
export function startMeter(readers: Record<string, CpuReader>): () => Metered {
  const readAll = (): [string, number][] => Object.entries(readers).map(([name, read]) => [name, read()]);
  const before = new Map(readAll());
  const busyBeforeUs = machineBusyUs();
  const startedMs = performance.now();
  return () => {
    const elapsedMs = performance.now() - startedMs;
    const busyUs = machineBusyUs() - busyBeforeUs;
    const used = readAll().map(([name, us]): [string, number] => [name, us - (before.get(name) ?? Number.NaN)]);
    const ownUs = used.reduce((sum, [, us]) => sum + (us || 0), 0);
    const othersPercent = (100 * Math.max(0, busyUs - ownUs)) / (elapsedMs * 1_000 * cpus().length);
    return { elapsedMs, cpuUs: Object.fromEntries(used), othersPercent };
  };
}

function machineBusyUs(): number {
  const busyMs = cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
  return busyMs * 1_000;
}
