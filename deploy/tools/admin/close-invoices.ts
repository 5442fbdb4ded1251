import type { CloseLine } from "#shared/money/day-close.ts";

/** A bill or a credit note of an account for a period, whose number is the same whenever it is made again. */
export type Document = {
  number: string;
  kind: "invoice" | "credit note";
  reason: "usage" | "refunds" | "corrections";
  account_id: string;
  from_day: string;
  last_day: string;
  /** Calls of the period, on an invoice for usage; else 0. */
  calls: string;
  /** Never negative. */
  amount_nanos: string;
};

export const documentColumns = [
  "number",
  "kind",
  "reason",
  "account_id",
  "from_day",
  "last_day",
  "calls",
  "amount_nanos",
] as const satisfies readonly (keyof Document)[];

type Sum = { calls: bigint; charges: bigint; refunds: bigint; corrections: bigint };

/** Adds up days by account. */
export function createInvoices() {
  const accounts = new Map<string, Sum>();
  return {
    add: ({ accountId, figures }: CloseLine): void => {
      const sum = accounts.get(accountId) ?? { calls: 0n, charges: 0n, refunds: 0n, corrections: 0n };
      sum.calls += figures.calls;
      sum.charges += figures.charges_nanos;
      sum.refunds += figures.refunds_nanos;
      sum.corrections += figures.corrections_nanos;
      accounts.set(accountId, sum);
    },
    /** One document for each sum that is not 0, in the order of accounts; payments are no part of any. */
    documents: (fromDay: string, lastDay: string): Document[] =>
      [...accounts]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .flatMap(([id, sum]) => documentsOf(id, sum, fromDay, lastDay)),
  };
}

function documentsOf(accountId: string, sum: Sum, fromDay: string, lastDay: string): Document[] {
  const made = [
    { reason: "usage", amount: sum.charges, calls: sum.calls },
    { reason: "refunds", amount: sum.refunds, calls: 0n },
    { reason: "corrections", amount: sum.corrections, calls: 0n },
  ] as const;
  return made
    .filter(({ amount }) => amount !== 0n)
    .map(({ reason, amount, calls }) => ({
      number: `${accountId}/${fromDay}/${lastDay}/${reason}`,
      kind: amount < 0n ? "invoice" : "credit note",
      reason,
      account_id: accountId,
      from_day: fromDay,
      last_day: lastDay,
      calls: String(calls),
      amount_nanos: String(amount < 0n ? -amount : amount),
    }));
}
