import { figuresOf } from "./figures.ts";
import type { LoadReport } from "./load-plan.ts";
import type { Load } from "./loads.ts";
import { pairedRatio, type Spread, spreadOf } from "./statistics.ts";
import { formatRatio, formatSpread, renderTable } from "./table.ts";
import type { TargetName } from "./targets.ts";

/** What was seen in one window. */
export type Window = { round: number; load: string; target: TargetName; report: LoadReport };

/** A figure of a load, for each target, with the relay's ratios to the bare ones. */
export type Row = {
  load: string;
  figure: string;
  spreads: Partial<Record<TargetName, Spread>>;
  relayToBare: number;
  relayToPipe: number;
};

/** Sums up the windows of all rounds; rows in the order of loads and figures. */
export function summarize(loads: Load[], windows: Window[]): Row[] {
  return loads.flatMap((load) =>
    figuresOf(load).map((figure) => {
      const valuesOf = (target: TargetName): number[] =>
        windows
          .filter((window) => window.load === load.name && window.target === target)
          .toSorted((a, b) => a.round - b.round)
          .map(({ report }) => figure.read(report, load));
      const [bare, pipe, relay] = [valuesOf("bare"), valuesOf("pipe"), valuesOf("relay")];
      return {
        load: load.name,
        figure: figure.name,
        spreads: { bare: spreadOf(bare), pipe: spreadOf(pipe), relay: spreadOf(relay) },
        relayToBare: pairedRatio(relay, bare),
        relayToPipe: pairedRatio(relay, pipe),
      };
    }),
  );
}

/** The rows as a table, one block per load. */
export function renderRows(rows: Row[]): string {
  const head = ["", "bare (undici dispatch)", "pipe (node:http)", "relay, metered", "relay/bare", "relay/pipe"];
  const cells = rows.flatMap((row, index) => {
    const { bare, pipe, relay } = row.spreads;
    const spreads = [bare, pipe, relay].map((spread) => (spread ? formatSpread(spread) : "–"));
    const isFirst = row.load !== rows[index - 1]?.load;
    const ratios = [formatRatio(row.relayToBare), formatRatio(row.relayToPipe)];
    return [...(isFirst ? [[row.load.toUpperCase()]] : []), [`  ${row.figure}`, ...spreads, ...ratios]];
  });
  return renderTable(head, cells);
}

/** What went wrong, in words; empty when no window had an error. */
export function renderErrors(windows: Window[]): string {
  const broken = windows.filter(({ report }) => report.errors > 0);
  if (broken.length === 0) return "";
  const lines = broken.map(({ round, load, target, report }) => {
    const { errors, allCalls, complaints } = report;
    return `  ${target}, ${load}, round ${round}: ${errors} of ${errors + allCalls.whole} calls — ${complaints[0]}`;
  });
  return `!!! THIS RUN HAD ERRORS; its figures are not to be trusted:\n${lines.join("\n")}\n`;
}
