import { readdirSync, readFileSync } from "node:fs";

/** What a process has used: microseconds of CPU since its start, and memory that is resident now. */
export type ProcessUse = { cpuUs: number; residentMb: number };

/**
 * Reads the use of a process from the Linux /proc, NaN elsewhere. CPU is the scheduler's own count of all threads,
 * to the nanosecond, so garbage collection and pool threads are in it.
 */
export function readProcessUse(pid: number): ProcessUse {
  return { cpuUs: readCpuUs(pid), residentMb: readResidentMb(pid) };
}

/** CPU of a process and of those that it has started, as PostgreSQL does per connection; ended ones are not in it. */
export function readTreeCpuUs(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, one) => sum + (readCpuUs(one) || 0), 0);
}

function childrenOf(pid: number): number[] {
  try {
    return read(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function readCpuUs(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const nanos = threads.map((thread) => Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(" ", 1)[0]));
    return nanos.reduce((sum, value) => sum + value, 0) / 1_000;
  } catch {
    return Number.NaN;
  }
}

function readResidentMb(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1]) / 1_024;
  } catch {
    return Number.NaN;
  }
}

function read(file: string): string {
  return readFileSync(file, "latin1");
}
