import { readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";

// The kernel tells times of ended children in hundredths of a second.
const usPerTick = 10_000;

/** What a process has used: microseconds of CPU since its start, and memory that is resident now. */
export type ProcessUse = { cpuUs: number; residentMb: number };

/**
 * Reads the use of a process from the Linux /proc, NaN elsewhere. CPU is the scheduler's own count of all threads,
 * to the nanosecond, so garbage collection and pool threads are in it.
 */
export function readProcessUse(pid: number): ProcessUse {
  return { cpuUs: readCpuUs(pid), residentMb: readResidentMb(pid) };
}

/** CPU of a process and of those that it has started, as PostgreSQL does per connection, ended ones among them. */
export function readTreeCpuUs(pid: number): number {
  const living = [pid, ...childrenOf(pid)].reduce((sum, one) => sum + (readCpuUs(one) || 0), 0);
  return living + readEndedUs(pid);
}

/** CPU of ended children from the text of /proc/<pid>/stat, in microseconds; NaN when it is none. */
export function endedChildrenUs(stat: string): number {
  // The name of a program stands in brackets and may have spaces in it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[13]) + Number(fields[14])) * usPerTick;
}

function readEndedUs(pid: number): number {
  try {
    return endedChildrenUs(read(`/proc/${pid}/stat`)) || 0;
  } catch {
    return 0;
  }
}

/** Microseconds in which the core that is measured was busy, with whatever, since the start of the machine. */
export function coreBusyUs(): number {
  const times = cpus()[0]?.times;
  return times ? (times.user + times.nice + times.sys + times.irq) * 1_000 : Number.NaN;
}

/** Processes that a process has started and that run; none where /proc does not tell. */
export function childrenOf(pid: number): number[] {
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
