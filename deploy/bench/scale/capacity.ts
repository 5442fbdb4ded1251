import { formatFigure, renderTable } from "../table.ts";

/** What is wanted of a whole installation. */
const callsPerSecond = 100_000;

/** How busy a core may be: the rest is for peaks, for a lost neighbour, and for calls that come one by one. */
const busyShare = 0.6;

/** What runs of a part, and how many of its cores one of them can use. */
const parts = [
  { process: "relay", what: "relay pods of one core" },
  { process: "auth-quota", what: "auth-quota pods of one core" },
  { process: "Redis", what: "Redis cores" },
  { process: "NATS", what: "NATS cores" },
  { process: "billing", what: "billing pods of one core" },
  { process: "PostgreSQL", what: "PostgreSQL cores" },
];

/** Cores, or whatever has one, that carry so many calls a second. */
export function coresFor(calls: number, cpuUsPerCall: number): number {
  return Math.ceil((calls * cpuUsPerCall) / 1_000_000 / busyShare);
}

/** The arithmetic to 100,000 calls a second as a table, from CPU per call by process. */
export function renderCapacity(cpu: Record<string, number>): string {
  const rows = parts.map(({ process, what }) => {
    const us = cpu[process] ?? Number.NaN;
    const needed = Number.isNaN(us) ? "–" : String(coresFor(callsPerSecond, us));
    return [what, formatFigure(us), `${formatFigure(callsPerSecond)} × CPU µs ÷ 1,000,000 ÷ ${busyShare}`, needed];
  });
  return renderTable(["part", "CPU µs per call", "arithmetic", `for ${formatFigure(callsPerSecond)} calls/s`], rows);
}
