import { absolute, counted, listed, listedIfAny, right, usd, wrong, type CheckResult } from "../records/finding.ts";
import type { EstimateRow, InvoiceRow, LossRow } from "../store/reconcile-calls.ts";

// More overruns than one call in a hundred, or more than 1 USD of them: the estimate of that model is off.
const overrunsPerHundred = 1n;
const overrunNanosBar = 1_000_000_000n;

/** R7: how well holds were estimated. A trend to watch: a call above its hold is charged what it cost. */
export function judgeEstimates(rows: readonly EstimateRow[]): CheckResult {
  const sum = (of: (row: EstimateRow) => bigint): bigint => rows.reduce((total, row) => total + of(row), 0n);
  const calls = sum((row) => row.calls);
  if (calls === 0n) return right("no calls with a cost");
  const isOff = (row: EstimateRow): boolean =>
    row.overruns * 100n > row.calls * overrunsPerHundred || BigInt(row.overrunNanos) > overrunNanosBar;
  const summary = [
    counted(calls, "call"),
    `${sum((row) => row.overruns)} above their hold, by ${usd(sum((row) => BigInt(row.overrunNanos)))}`,
    `${sum((row) => row.estimated)} charged by estimated counts`,
    `${counted(rows.filter(isOff).length, "model")} above the bar`,
  ].join("; ");
  const items = rows.map((row) => {
    const { model, p50, p99, overruns, overrunNanos, estimated } = row;
    const spread = `cost by hold p50 ${ratio(p50)}, p99 ${ratio(p99)}`;
    const over = `${overruns} above it by ${usd(BigInt(overrunNanos))}, ${estimated} estimated`;
    return `${isOff(row) ? "above the bar: " : ""}${model}: ${counted(row.calls, "call")}, ${spread}, ${over}`;
  });
  return listed(summary, items);
}

function ratio(thousandths: bigint | null): string {
  if (thousandths === null) return "-";
  return `${thousandths / 1_000n}.${String(thousandths % 1_000n).padStart(3, "0")}`;
}

/** R8: what a provider has billed for a day is within 0.5 % of what the calls cost by the catalog's cost prices. */
export function judgeInvoices(rows: readonly InvoiceRow[]): CheckResult {
  const upstreams = Map.groupBy(rows, ({ upstream }) => upstream);
  if (upstreams.size === 0) return listed("no invoice is loaded");
  const off: string[] = [];
  let offNanos = 0n;
  const totals = [...upstreams].map(([upstream, models]) => {
    const billed = models.reduce((sum, row) => sum + BigInt(row.billed ?? 0), 0n);
    const expected = models.reduce((sum, row) => sum + BigInt(row.expected ?? 0), 0n);
    const difference = absolute(billed - expected);
    const words = `${upstream}: billed ${usd(billed)}, by our prices ${usd(expected)}`;
    if (difference * 1_000n <= expected * 5n) return words;
    offNanos += difference;
    off.push(words, ...models.filter((row) => row.billed !== row.expected).map(tellModel));
    return words;
  });
  if (off.length > 0) return wrong(`${usd(offNanos)} beyond 0.5 %; ${totals.join("; ")}`, off, offNanos);
  return right(totals.join("; "));
}

function tellModel({ upstream, model, billed, expected }: InvoiceRow): string {
  const amount = (nanos: string | null): string => (nanos === null ? "nothing" : usd(BigInt(nanos)));
  return `${upstream} ${model}: billed ${amount(billed)}, by our prices ${amount(expected)}`;
}

/** R9: what is lost or forgiven by the rules, with its amount. */
export function judgeLosses(rows: readonly LossRow[]): CheckResult {
  const tell = ({ loss, count, nanos }: LossRow): string => `${loss}: ${count}, ${usd(BigInt(nanos))}`;
  const items = rows.map((row) => `${tell(row)}, such as ${row.example ?? "-"}`);
  return listedIfAny(rows.map(tell).join("; ") || "none", items);
}
