import { pairedSpread, spreadOf, type Spread } from "./statistics.ts";
import { formatRatio, formatSpread, renderTable } from "./table.ts";
import { targetNames, type TargetName } from "./targets.ts";

/** One figure of one target under one load, in one round. */
export type Measured = { round: number; load: string; figure: string; target: TargetName; value: number };

/** Where a figure stands. */
export type MeasuredKey = Pick<Measured, "load" | "figure" | "target">;

/** Values of a place by round; rounds in which it has none are NaN. */
function valuesAt(measured: readonly Measured[], { load, figure, target }: MeasuredKey): number[] {
  const values: number[] = [];
  for (const one of measured) {
    if (one.load === load && one.figure === figure && one.target === target) values[one.round - 1] = one.value;
  }
  return Array.from(values, (value) => value ?? Number.NaN);
}

/** A figure over the rounds. */
export function spreadAt(measured: readonly Measured[], place: MeasuredKey): Spread {
  return spreadOf(valuesAt(measured, place));
}

/** The ratios of two places, round by round. */
export function ratioAt(measured: readonly Measured[], of: MeasuredKey, to: MeasuredKey): Spread {
  return pairedSpread(valuesAt(measured, of), valuesAt(measured, to));
}

/** A table for each load: a row per figure, a column per target, and how the relay compares with the others. */
export function renderMeasured(measured: readonly Measured[]): string {
  const columns = targetNames.filter((name) => measured.some(({ target }) => target === name));
  const others = columns.filter((name) => !["relay", "direct"].includes(name));
  const hasRelay = columns.includes("relay");
  const head = ["", ...columns, ...(hasRelay ? others.map((name) => `relay/${name}`) : [])];
  const loads = [...new Set(measured.map(({ load }) => load))];
  const rows = loads.flatMap((load) => {
    const own = measured.filter((one) => one.load === load);
    const figures = [...new Set(own.map(({ figure }) => figure))];
    const lines = figures.map((figure) => {
      const place = (target: TargetName): MeasuredKey => ({ load, figure, target });
      const spreads = columns.map((target) => formatSpread(spreadAt(own, place(target))));
      const ratios = others.map((target) => formatRatio(ratioAt(own, place("relay"), place(target)).median));
      return [`  ${figure}`, ...spreads, ...(hasRelay ? ratios : [])];
    });
    return [[load.toUpperCase()], ...lines];
  });
  return renderTable(head, rows);
}
