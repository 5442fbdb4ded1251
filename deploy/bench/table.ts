import type { Spread } from "./statistics.ts";

/** Renders rows of cells under a head, columns padded: the first to the left, the others to the right. */
export function renderTable(head: string[], rows: string[][]): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)));
  const pad = (text: string, column: number): string =>
    column === 0 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0);
  const render = (cells: string[]): string =>
    `| ${head.map((_, column) => pad(cells[column] ?? "", column)).join(" | ")} |`;
  const dashes = (width: number, column: number): string =>
    column === 0 ? "-".repeat(width + 2) : `${"-".repeat(width + 1)}:`;
  const rule = `|${widths.map(dashes).join("|")}|`;
  return [render(head), rule, ...rows.map(render)].join("\n");
}

/** A figure with three digits that matter, thousands set apart; a dash when there is none. */
export function formatFigure(value: number): string {
  if (Number.isNaN(value)) return "–";
  const digits = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** A median with the range that it was seen in. */
export function formatSpread({ median, min, max }: Spread): string {
  if (Number.isNaN(median)) return "–";
  return `${formatFigure(median)} (${formatFigure(min)}…${formatFigure(max)})`;
}

/** A ratio, such as 1.27x. */
export function formatRatio(ratio: number): string {
  return Number.isNaN(ratio) ? "–" : `${ratio.toFixed(2)}x`;
}
