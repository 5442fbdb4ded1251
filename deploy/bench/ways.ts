import type { Metered } from "./cpu-meter.ts";
import { type Spread, spreadOf } from "./statistics.ts";
import { formatFigure, formatRatio, formatSpread, renderTable } from "./table.ts";

/** One window of one way to do the same work. */
export type WayWindow = {
  round: number;
  way: string;
  /** Units of work: pairs, events. */
  done: number;
  perSecond: number;
  /** Microseconds of CPU per unit of work, by process; all ways name the same processes in the same order. */
  cpuUs: Record<string, number>;
  /** How much of the machine other processes used meanwhile. */
  othersPercent: number;
};

/** A window from what was metered of it. */
export function toWindow(round: number, way: string, done: number, metered: Metered): WayWindow {
  const perUnit = Object.entries(metered.cpuUs).map(([name, us]) => [name, us / done]);
  return {
    round,
    way,
    done,
    perSecond: (done * 1_000) / metered.elapsedMs,
    cpuUs: Object.fromEntries(perUnit),
    othersPercent: metered.othersPercent,
  };
}

/** What the windows of a way come to. */
export type WaySummary = { way: string; perSecond: Spread; timesNaive: Spread; cpuUs: Record<string, number> };

/** Sums up the windows of each way, in the order in which ways first come; ratios are taken within a round. */
export function summarizeWays(windows: readonly WayWindow[], naiveWay: string): WaySummary[] {
  return [...new Set(windows.map(({ way }) => way))].map((way) => {
    const own = windows.filter((window) => window.way === way);
    const processes = Object.keys(own[0]?.cpuUs ?? {});
    const medianOf = (name: string): number => spreadOf(own.map(({ cpuUs }) => cpuUs[name] ?? Number.NaN)).median;
    return {
      way,
      perSecond: spreadOf(own.map(({ perSecond }) => perSecond)),
      timesNaive: ratioOf(windows, way, naiveWay),
      cpuUs: Object.fromEntries(processes.map((name) => [name, medianOf(name)])),
    };
  });
}

/** How often the speed of one way is that of another, round by round. */
export function ratioOf(windows: readonly WayWindow[], way: string, base: string): Spread {
  const speedIn = (wanted: string, round: number): number =>
    windows.find((window) => window.way === wanted && window.round === round)?.perSecond ?? Number.NaN;
  const rounds = [...new Set(windows.map(({ round }) => round))];
  return spreadOf(rounds.map((round) => speedIn(way, round) / speedIn(base, round)));
}

/** The ways as a table; the first column is headed by what was done. */
export function renderWays(title: string, unit: string, ways: readonly WaySummary[]): string {
  const processes = Object.keys(ways[0]?.cpuUs ?? {});
  const head = [title, `${unit}/s`, "times naive", ...processes.map((name) => `CPU µs, ${name}`)];
  const rows = ways.map(({ way, perSecond, timesNaive, cpuUs }) => [
    `  ${way}`,
    formatSpread(perSecond),
    formatRatio(timesNaive.median),
    ...processes.map((name) => formatFigure(cpuUs[name] ?? Number.NaN)),
  ]);
  return renderTable(head, rows);
}
