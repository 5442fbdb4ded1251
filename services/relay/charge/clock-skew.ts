// auth-quota refuses ids that are ten minutes off, and a body may take five to come after its call was given one.
const mostSkewMs = 300_000;

/** What is wrong with this machine's clock, if anything. */
export function clockProblem(aheadMs: number): string | undefined {
  if (Math.abs(aheadMs) <= mostSkewMs) return undefined;
  return `the clock is ${Math.round(Math.abs(aheadMs) / 1_000)} s ${aheadMs > 0 ? "ahead of" : "behind"} Redis'`;
}
