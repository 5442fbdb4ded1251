import type { Metered } from "./cpu-meter.ts";
import { type Spread, spreadOf } from "./statistics.ts";
import { formatFigure, formatRatio, formatSpread, renderTable } from "./table.ts";

/** One window of one way to do the same work. */
export type VariantWindow = {
  round: number;
  variant: string;
  /** Units of work: pairs, events. */
  done: number;
  perSecond: number;
  /** Microseconds of CPU per unit of work, by process; all variants name the same processes in the same order. */
  cpuUs: Record<string, number>;
  /** How much of the machine other processes used meanwhile. */
  othersPercent: number;
};

/** A window from what was metered of it. */
export function toWindow(round: number, variant: string, done: number, metered: Metered): VariantWindow {
  const perUnit = Object.entries(metered.cpuUs).map(([name, us]) => [name, us / done]);
  return {
    round,
    variant,
    done,
    perSecond: (done * 1_000) / metered.elapsedMs,
    cpuUs: Object.fromEntries(perUnit),
    othersPercent: metered.othersPercent,
  };
}

/** What the windows of a way come to. */
export type VariantSummary = { variant: string; perSecond: Spread; timesNaive: Spread; cpuUs: Record<string, number> };

/** Sums up the windows of each variant, in the order in which variants first come; ratios are taken within a round. */
export function summarizeVariants(windows: readonly VariantWindow[], naiveWay: string): VariantSummary[] {
  return [...new Set(windows.map(({ variant }) => variant))].map((variant) => {
    const own = windows.filter((window) => window.variant === variant);
    const processes = Object.keys(own[0]?.cpuUs ?? {});
    const medianOf = (name: string): number => spreadOf(own.map(({ cpuUs }) => cpuUs[name] ?? Number.NaN)).median;
    return {
      variant,
      perSecond: spreadOf(own.map(({ perSecond }) => perSecond)),
      timesNaive: ratioOf(windows, variant, naiveWay),
      cpuUs: Object.fromEntries(processes.map((name) => [name, medianOf(name)])),
    };
  });
}

/** How often the speed of one way is that of another, round by round. */
export function ratioOf(windows: readonly VariantWindow[], variant: string, base: string): Spread {
  return spreadOfRatios(windows, [variant, base], ({ perSecond }) => perSecond);
}

/** How often the CPU that a unit of work costs in all processes, in one way, is what it costs in another. */
export function ratioOfCpu(windows: readonly VariantWindow[], variant: string, base: string): Spread {
  // A process without a reading in a window did not run in it.
  const costOf = ({ cpuUs }: VariantWindow): number =>
    Object.values(cpuUs).reduce((sum, us) => sum + (Number.isNaN(us) ? 0 : us), 0);
  return spreadOfRatios(windows, [variant, base], costOf);
}

function spreadOfRatios(
  windows: readonly VariantWindow[],
  [variant, base]: readonly [string, string],
  figureOf: (window: VariantWindow) => number,
): Spread {
  const figureIn = (wanted: string, round: number): number => {
    const found = windows.find((window) => window.variant === wanted && window.round === round);
    return found ? figureOf(found) : Number.NaN;
  };
  const rounds = [...new Set(windows.map(({ round }) => round))];
  return spreadOf(rounds.map((round) => figureIn(variant, round) / figureIn(base, round)));
}

/** The variants as a table; the first column is headed by what was done. */
export function renderVariants(title: string, unit: string, variants: readonly VariantSummary[]): string {
  const processes = Object.keys(variants[0]?.cpuUs ?? {});
  const head = [title, `${unit}/s`, "times naive", ...processes.map((name) => `CPU µs, ${name}`)];
  const rows = variants.map(({ variant, perSecond, timesNaive, cpuUs }) => [
    `  ${variant}`,
    formatSpread(perSecond),
    formatRatio(timesNaive.median),
    ...processes.map((name) => formatFigure(cpuUs[name] ?? Number.NaN)),
  ]);
  return renderTable(head, rows);
}
