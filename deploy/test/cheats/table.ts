import { formatUsd } from "#shared/money/money.ts";
import { isFair, type Outcome, ratioOf } from "./run.ts";

const usd = (nanos: bigint): string => formatUsd(nanos).replace(/(\.\d{4})\d*$/, "$1");

function ratioText({ billedNanos, chargedNanos }: Outcome): string {
  if (billedNanos === 0n) return "none billed";
  return ratioOf(billedNanos, chargedNanos).toFixed(2);
}

const verdictOf = (outcome: Outcome): string => (isFair(outcome) ? "" : (outcome.pending ?? "TOO MUCH"));

/** The outcomes of attacks as a table: what the provider bills for each unit that is charged, and the balance after. */
export function formatAttacks(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map((one) => [
    one.name,
    `${one.served}/${one.calls}`,
    usd(one.billedNanos),
    usd(one.chargedNanos),
    ratioText(one),
    usd(one.balanceNanos),
    verdictOf(one),
  ]);
  return formatRows([["attack", "served", "billed", "charged", "ratio", "balance", ""], ...rows]);
}

/** Honest calls: what is charged for each unit that the provider bills. */
export function formatHonest(told: readonly Outcome[], untold: readonly Outcome[]): string {
  const over = ({ billedNanos, chargedNanos }: Outcome): string => ratioOf(chargedNanos, billedNanos).toFixed(3);
  const rows = told.map((one, at) => [one.name, over(one), over(untold[at] as Outcome)]);
  return formatRows([["honest caller", "counts told", "none told"], ...rows]);
}

function formatRows(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
