import type { Spread } from "./statistics.ts";
import { formatFigure, formatSpread, renderTable } from "./table.ts";

/** A figure that is held to a bar: the median of the rounds must reach `min`, or not exceed `max`. */
export type Bar = { what: string; measured: Spread } & ({ min: number } | { max: number });

/** Whether the median keeps to the bar; a figure that is missing (NaN) does not. */
export function isMet(bar: Bar): boolean {
  const { median } = bar.measured;
  return "min" in bar ? median >= bar.min : median <= bar.max;
}

/** The bars as a table with a verdict each. */
export function renderBars(bars: Bar[]): string {
  const rows = bars.map((bar) => [
    bar.what,
    "min" in bar ? `≥ ${formatFigure(bar.min)}` : `≤ ${formatFigure(bar.max)}`,
    formatSpread(bar.measured),
    isMet(bar) ? "met" : "NOT met",
  ]);
  return renderTable(["bar", "asked", "measured", ""], rows);
}
