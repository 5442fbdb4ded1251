import { query } from "#shared/testing/postgres.ts";
import { findImbalance } from "../../../services/billing/testing/ledger.ts";

/** What must be in the books: lines, and what they charge in all. */
export type Expected = { lines: number; chargedNanos: bigint };

/** What is wrong with a ledger, in words; empty when all was booked once, nothing else was, and the sums agree. */
export async function auditBooks(ownerUrl: string, expected: Expected): Promise<string[]> {
  const { rows } = await query(
    ownerUrl,
    `SELECT (SELECT count(*) FROM billing.ledger_line)::text AS lines,
       (SELECT coalesce(sum(charged_nanos), 0) FROM billing.account)::text AS "chargedNanos",
       (SELECT count(*) FROM billing.usage_quarantine)::text AS quarantined`,
  );
  const found = rows[0] as Record<string, string>;
  const wanted = { ...expected, quarantined: 0 };
  const wrong = Object.entries(wanted).filter(([name, value]) => found[name] !== String(value));
  const imbalances = await findImbalance(ownerUrl);
  return [
    ...wrong.map(([name, value]) => `${name}: ${found[name]} instead of ${value}`),
    ...imbalances.map((row) => `imbalance: ${JSON.stringify(row)}`),
  ];
}
