import { counted, right, usd, wrong, type CheckResult } from "../records/finding.ts";
import type { CallRow, SumRow } from "../store/reconcile-books.ts";

/** R1: what accounts and keys are kept to have is the sum of their lines. `of` says what was added up. */
export function judgeSums(rows: readonly SumRow[], of: string): CheckResult {
  const [first] = rows;
  if (!first) return right(`the sums of ${of} are those of their lines`);
  const offNanos = BigInt(first.offNanos);
  return wrong(
    `${counted(first.rows, "sum")} of ${of} differ from the lines, by ${usd(offNanos)} in all`,
    rows.map(({ what, kept, summed }) => `${what}: kept ${kept || "nothing"}, lines give ${summed || "nothing"}`),
    offNanos,
  );
}

/** R11: sums of hours and days are those of the day's lines. */
export function judgeUnequal(rows: readonly SumRow[], day: string): CheckResult {
  const [first] = rows;
  if (!first) return right(`the sums of ${day} are those of its lines`);
  const offNanos = BigInt(first.offNanos);
  return wrong(
    `${counted(first.rows, "sum")} of hours and days differ from the lines of ${day}, by ${usd(offNanos)} in all`,
    rows.map(({ what, kept, summed }) => `${what}: kept ${kept || "nothing"}, lines give ${summed || "nothing"}`),
    offNanos,
  );
}

/** R3: each call is charged once, what it costs, and not more is given back. */
export function judgeCalls(rows: readonly CallRow[]): CheckResult {
  const [first] = rows;
  if (!first) return right("every call is charged once and what it costs");
  const offNanos = BigInt(first.offNanos);
  return wrong(
    `${counted(first.rows, "call")} charged twice or not what they cost, ${usd(offNanos)} in all`,
    rows.map(({ rid, problem }) => `${rid}: ${problem}`),
    offNanos,
  );
}
