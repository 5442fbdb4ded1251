import type { Window } from "../records/finding.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { isDoubt, isOpen } from "./quarantine.ts";
import { askLong, ofWindow, windowValues } from "./reconcile-query.ts";

/** A record in quarantine that nobody has settled; the first of many, with their number. */
export type OpenQuarantineRow = { id: bigint; reason: string; rid: string | null; rows: bigint };

/** What is in quarantine and open, and not booked: doubts are, so no money is missing for them. */
export async function readOpenQuarantine(pool: Pool): Promise<OpenQuarantineRow[]> {
  return await askLong<OpenQuarantineRow>(
    pool,
    `SELECT quarantine_id AS id, reason, rid, count(*) OVER () AS rows FROM billing.usage_quarantine AS q
     WHERE ${isOpen} AND NOT ${isDoubt} ORDER BY quarantine_id DESC LIMIT 100`,
    [],
  );
}

/** How many records are booked at what is possible and wait for a person. */
export async function countDoubts(pool: Pool): Promise<bigint> {
  const [row] = await askLong<{ count: bigint }>(
    pool,
    `SELECT count(*) AS count FROM billing.usage_quarantine AS q WHERE ${isDoubt} AND ${isOpen}`,
    [],
  );
  return row?.count ?? 0n;
}

/** How many finals came after a provisional charge, of the window's calls, and what they added in nano-USD. */
export async function readLateFinals(pool: Pool, window: Window): Promise<{ count: bigint; nanos: bigint }> {
  const [row] = await askLong<{ count: bigint; nanos: string }>(
    pool,
    `SELECT count(*) AS count, coalesce(-sum(amount_nanos), 0)::text AS nanos FROM billing.ledger_line
     WHERE ${ofWindow} AND kind = 3`,
    windowValues(window),
  );
  return { count: row?.count ?? 0n, nanos: BigInt(row?.nanos ?? 0) };
}

/** A call with the prices that it was charged by, as its event, beside those booked for the version. */
export type PriceSample = {
  rid: string;
  model: string;
  version: string;
  event: Buffer;
  /** Nano-USD per 1,000,000 units as decimal strings, by the names of usage.v1.Usage; null: none are booked. */
  prices: Partial<Record<string, string>> | null;
};

/** The first and the last call of the window by each price version. */
export async function readPriceSamples(pool: Pool, window: Window): Promise<PriceSample[]> {
  const sample = (order: "ASC" | "DESC"): string =>
    `(SELECT DISTINCT ON (model_requested, price_version) rid, model_requested AS model, price_version AS version, event
      FROM billing.ledger_line WHERE ${ofWindow} AND kind <= 3 AND price_version <> ''
      ORDER BY model_requested, price_version, rid ${order} LIMIT 2000)`;
  return await askLong<PriceSample>(
    pool,
    `SELECT rid, model, version, event, prices FROM (${sample("ASC")} UNION ${sample("DESC")}) AS call
     LEFT JOIN billing.price_row USING (model, version) ORDER BY rid`,
    windowValues(window),
  );
}
