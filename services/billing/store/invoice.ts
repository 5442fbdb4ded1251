import { numberArray, plainArray, textArray, bytesArray } from "./arrays.ts";
import { unitColumns } from "./columns.ts";
import type { Queryable } from "#shared/stores/postgres.ts";

export type CostRow = {
  day: string;
  model: string;
  costNanos: bigint;
  /** The encoded usage.v1.Usage. */
  usage: Uint8Array;
};

export type Invoice = { upstream: string; invoiceId: string; rows: readonly CostRow[] };

/** Takes over a provider's rows in one statement; those of the same day and model are replaced. */
export async function putInvoice(
  db: Queryable,
  { upstream, invoiceId, rows }: Invoice,
): Promise<{ added: number; replaced: number }> {
  const { rows: written } = await db.query<{ isAdded: boolean }>(
    `INSERT INTO billing.provider_cost AS c (upstream, invoice_id, day, model, cost_nanos, usage)
     SELECT $1, $2, * FROM unnest($3::date[], $4::text[], $5::bigint[], $6::bytea[]) AS new (day, model, cost, usage)
     ORDER BY day, model
     ON CONFLICT (upstream, day, model) DO UPDATE SET invoice_id = excluded.invoice_id,
       cost_nanos = excluded.cost_nanos, usage = excluded.usage, loaded_at = now()
     RETURNING (xmax = 0) AS "isAdded"`,
    [
      upstream,
      invoiceId,
      plainArray(rows.map(({ day }) => day)),
      textArray(rows.map(({ model }) => model)),
      numberArray(rows.map(({ costNanos }) => costNanos)),
      bytesArray(rows.map(({ usage }) => usage)),
    ],
  );
  const added = written.filter(({ isAdded }) => isAdded).length;
  return { added, replaced: written.length - added };
}

/** A day and model as either side knows it; `units` of the ledger, in the order of usageBuckets. */
export type ComparedRow = {
  day: string;
  model: string;
  billedNanos: bigint;
  billedUsage: Buffer | null;
  expectedNanos: bigint;
  chargedNanos: bigint;
  calls: bigint;
  unpricedCalls: bigint;
  units: bigint[];
};

export type InvoiceComparison = { upstream: string; fromDay: string; untilDay: string; limit: number };

type Row = {
  day: string;
  model: string;
  billed: bigint | null;
  usage: Buffer | null;
  expected: string | null;
  charged: string | null;
  calls: bigint | null;
  unpriced: bigint | null;
  units: string[] | null;
};

// Money and units add up over the lines of a call; what it costs at the provider stands on each of them in full, so
// only the line that ends the call counts: a provisional one counts while nothing follows it.
const booked = `
  SELECT l.day, coalesce(nullif(l.model_served, ''), l.model_requested) AS model,
    sum(l.upstream_cost_nanos) FILTER (WHERE l.is_last) AS expected, -sum(l.amount_nanos) AS charged,
    count(*) FILTER (WHERE l.is_last) AS calls,
    count(*) FILTER (WHERE l.is_last AND l.upstream_cost_nanos IS NULL) AS unpriced,
    ARRAY[${unitColumns.map((name) => `coalesce(sum(l.${name}), 0)`).join(", ")}]::text[] AS units
  FROM (
    SELECT *, kind <> 2 OR NOT EXISTS (
      SELECT FROM billing.ledger_line AS a WHERE a.rid = c.rid AND a.day = c.day AND a.kind = 3
    ) AS is_last
    FROM billing.ledger_line AS c WHERE upstream = $1 AND kind <= 3 AND day >= $2 AND day < $3
  ) AS l GROUP BY 1, 2`;

/** A provider's rows beside the ledger's, in the order of day and model. */
export async function compareInvoice(db: Queryable, compared: InvoiceComparison): Promise<ComparedRow[]> {
  const { rows } = await db.query<Row>(
    `SELECT day, model, c.cost_nanos AS billed, c.usage, b.expected::text, b.charged::text, b.calls, b.unpriced, b.units
     FROM (SELECT * FROM billing.provider_cost WHERE upstream = $1 AND day >= $2 AND day < $3) AS c
     FULL JOIN (${booked}) AS b USING (day, model) ORDER BY day, model LIMIT $4`,
    [compared.upstream, compared.fromDay, compared.untilDay, compared.limit],
  );
  return rows.map((row) => ({
    day: row.day,
    model: row.model,
    billedNanos: row.billed ?? 0n,
    billedUsage: row.usage,
    expectedNanos: BigInt(row.expected ?? 0),
    chargedNanos: BigInt(row.charged ?? 0),
    calls: row.calls ?? 0n,
    unpricedCalls: row.unpriced ?? 0n,
    units: (row.units ?? []).map(BigInt),
  }));
}
