import type { Spread } from "./statistics.ts";
import { formatFigure, formatSpread, renderTable } from "./table.ts";

/** A figure that is held to a bar: the median of the rounds must reach `least`, or not exceed `most`. */
export type Bar = { what: string; measured: Spread } & ({ least: number } | { most: number });

/** Whether the median keeps to the bar; a figure that is missing (NaN) does not. */
export function isMet(bar: Bar): boolean {
  const { median } = bar.measured;
  return "least" in bar ? median >= bar.least : median <= bar.most;
}

/** The bars as a table with a verdict each. */
export function renderBars(bars: Bar[]): string {
  const rows = bars.map((bar) => [
    bar.what,
    "least" in bar ? `≥ ${formatFigure(bar.least)}` : `≤ ${formatFigure(bar.most)}`,
    formatSpread(bar.measured),
    isMet(bar) ? "met" : "NOT met",
  ]);
  return renderTable(["bar", "asked", "measured", ""], rows);
}
