import type { Spread } from "./statistics.ts";
import { formatRatio, renderTable } from "./table.ts";

/** What ratios came to on a quiet machine, and by which share of it they may worsen. */
export type Baseline = Record<string, { ratio: number; margin: number }>;

/** A ratio of this run beside the one of the baseline. */
export type Finding = {
  what: string;
  measured: Spread;
  baseline: number;
  /** Above this median it counts as worse. */
  limit: number;
  verdict: "ok" | "worse" | "missing" | "new";
};

const minMargin = 0.1;

const round = (value: number, digits: number): number => Number(value.toFixed(digits));

/** The share by which a ratio may worsen: 10 %, or as much as its rounds were apart when that is more. */
export function marginOf({ median, min, max }: Spread): number {
  return Math.max(minMargin, Math.ceil(round(((max - min) / median) * 100, 3)) / 100);
}

/** A baseline of what was measured. Throws an Error that names a ratio which is missing. */
export function toBaseline(spreads: ReadonlyMap<string, Spread>): Baseline {
  const entries = [...spreads].map(([what, spread]) => {
    if (!Number.isFinite(spread.median)) throw new Error(`${what} was not measured`);
    return [what, { ratio: round(spread.median, 3), margin: round(marginOf(spread), 2) }] as const;
  });
  return Object.fromEntries(entries);
}

/** Holds each ratio against the baseline; one of the baseline that was not measured is missing. */
export function compare(baseline: Baseline, spreads: ReadonlyMap<string, Spread>): Finding[] {
  const names = new Set([...Object.keys(baseline), ...spreads.keys()]);
  return [...names].map((what) => {
    const measured = spreads.get(what) ?? { median: Number.NaN, min: Number.NaN, max: Number.NaN };
    const { ratio = Number.NaN, margin = 0 } = baseline[what] ?? {};
    const limit = ratio * (1 + margin);
    return { what, measured, baseline: ratio, limit, verdict: verdictOf(measured.median, limit) };
  });
}

function verdictOf(median: number, limit: number): Finding["verdict"] {
  if (Number.isNaN(limit)) return "new";
  if (Number.isNaN(median)) return "missing";
  return median > limit ? "worse" : "ok";
}

/** Whether a finding makes the check fail: one that is not in the baseline yet does, too. */
export function isFailure({ verdict }: Finding): boolean {
  return verdict !== "ok";
}

/** The findings as a table. */
export function renderFindings(findings: Finding[]): string {
  const rows = findings.map(({ what, measured, baseline, limit, verdict }) => [
    what,
    formatRatio(baseline),
    formatRatio(limit),
    `${formatRatio(measured.median)} (${formatRatio(measured.min)}…${formatRatio(measured.max)})`,
    verdict,
  ]);
  return renderTable(["ratio", "baseline", "limit", "measured", ""], rows);
}
