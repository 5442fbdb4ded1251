/** Median, least and greatest of some windows. */
export type Spread = { median: number; min: number; max: number };

/** The middle of `values`, the mean of the two middle ones when their number is even; NaN without values. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** The least value that at least `share` (0 to 1) of `sorted` do not exceed; NaN without values. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const rank = Math.ceil(share * sorted.length);
  return sorted[Math.max(0, rank - 1)] ?? Number.NaN;
}

/** Sums up the windows of one figure; windows without it (NaN) are left out. */
export function spreadOf(values: number[]): Spread {
  const known = values.filter((value) => !Number.isNaN(value));
  if (known.length === 0) return { median: Number.NaN, min: Number.NaN, max: Number.NaN };
  return { median: median(known), min: Math.min(...known), max: Math.max(...known) };
}

/**
 * The ratios of windows of the same round. Sturdier than the ratio of two medians: what slows the machine down for a
 * while slows neighbouring windows alike. Rounds in which there is nothing to compare with are left out.
 */
export function pairedSpread(numerators: number[], denominators: number[]): Spread {
  const ratioIn = (value: number, round: number): number => {
    const base = denominators[round] ?? Number.NaN;
    return base > 0 ? value / base : Number.NaN;
  };
  return spreadOf(numerators.map(ratioIn));
}
