import type { Spread } from "./statistics.ts";
import { formatFigure, formatSpread, renderTable } from "./table.ts";

/** A figure that is held to a bar: the median of the rounds must reach `least`. */
export type Bar = { what: string; least: number; measured: Spread };

/** Whether the median reaches the bar; a figure that is missing (NaN) does not. */
export function isMet({ least, measured }: Bar): boolean {
  return measured.median >= least;
}

/** The bars as a table with a verdict each. */
export function renderBars(bars: Bar[]): string {
  const rows = bars.map((bar) => [
    bar.what,
    formatFigure(bar.least),
    formatSpread(bar.measured),
    isMet(bar) ? "met" : "NOT met",
  ]);
  return renderTable(["bar", "at least", "measured", ""], rows);
}
