import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { Window } from "../records/finding.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { askLong, ofWindow, windowValues } from "./reconcile-query.ts";

/** A provisional charge that no final has followed; amounts in nano-USD. */
export type ProvisionalRow = { rid: string; chargedNanos: bigint };

const provisionalOnly = `kind = 2 AND NOT EXISTS (SELECT FROM billing.ledger_line AS later
  WHERE later.rid = line.rid AND later.day = line.day AND later.kind = 3)`;

/** Provisional charges of calls from `firstDay` up to the time of `endRid`; the largest first, at most 100. */
export async function readProvisional(pool: Pool, firstDay: string, endRid: string): Promise<ProvisionalRow[]> {
  return await askLong<ProvisionalRow>(
    pool,
    `SELECT rid, -amount_nanos AS "chargedNanos" FROM billing.ledger_line AS line
     WHERE day >= $1 AND rid < $2 AND ${provisionalOnly} ORDER BY amount_nanos LIMIT 100`,
    [firstDay, endRid],
  );
}

/** How the holds of a model's calls were estimated: percentiles of cost by hold, in thousandths. */
export type EstimateRow = {
  model: string;
  calls: bigint;
  p50: bigint | null;
  p99: bigint | null;
  /** Calls that cost more than was held for them, and by how many nano-USD. */
  overruns: bigint;
  overrunNanos: string;
  /** Calls that were charged by estimated counts. */
  estimated: bigint;
};

/** The models with most calls first, at most 100. */
export async function readEstimates(pool: Pool, window: Window): Promise<EstimateRow[]> {
  const ratio = "WITHIN GROUP (ORDER BY cost_nanos * 1000::numeric / held_nanos) FILTER (WHERE held_nanos > 0)";
  return await askLong<EstimateRow>(
    pool,
    `SELECT coalesce(model_requested, '') AS model, count(*) AS calls,
       (percentile_disc(0.5) ${ratio})::bigint AS p50, (percentile_disc(0.99) ${ratio})::bigint AS p99,
       count(*) FILTER (WHERE cost_nanos > held_nanos) AS overruns,
       coalesce(sum(cost_nanos - held_nanos) FILTER (WHERE cost_nanos > held_nanos), 0)::text AS "overrunNanos",
       count(*) FILTER (WHERE usage_source IN (${UsageSource.ESTIMATED}, ${UsageSource.PROVIDER_INPUT})) AS estimated
     FROM billing.ledger_line WHERE ${ofWindow} AND kind IN (1, 3) AND cost_nanos > 0
     GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100`,
    windowValues(window),
  );
}

/** Known losses: counts, and sums in nano-USD as text. */
export type LossRow = { loss: string; count: bigint; nanos: string; example: string | null };

/** What is lost or forgiven by the rules, kind by kind; kinds without any are left out. */
export async function readLosses(pool: Pool, window: Window): Promise<LossRow[]> {
  return await askLong<LossRow>(
    pool,
    `WITH call AS (
       SELECT * FROM billing.ledger_line AS line WHERE ${ofWindow} AND kind <= 3
     ), loss AS (
       SELECT 'relay lost, charged at its last checkpoint' AS loss, rid::text AS what, -amount_nanos AS nanos
       FROM call AS line WHERE end_cause = ${EndCause.RELAY_LOST} AND ${provisionalOnly}
       UNION ALL SELECT 'final below the provisional charge, which stays', rid::text, cost_nanos
       FROM call WHERE kind = 3 AND amount_nanos = 0 AND EXISTS (SELECT FROM billing.ledger_line AS earlier
         WHERE earlier.rid = call.rid AND earlier.day = call.day AND earlier.kind = 2
           AND -earlier.amount_nanos > call.cost_nanos)
       UNION ALL SELECT 'served and not charged', rid::text, upstream_cost_nanos
       FROM call WHERE kind = 1 AND amount_nanos = 0 AND upstream_cost_nanos > 0
       UNION ALL SELECT 'balance below zero', account_id, -balance_nanos
       FROM billing.account WHERE balance_nanos < 0
     )
     SELECT loss, count(*) AS count, coalesce(sum(nanos), 0)::text AS nanos, max(what) AS example
     FROM loss GROUP BY loss ORDER BY loss`,
    windowValues(window),
  );
}

/** A provider's invoice beside the ledger; nano-USD as text. */
export type InvoiceRow = { upstream: string; model: string; billed: string | null; expected: string | null };

/** For every upstream of which an invoice of that day is loaded: its models, and those that the ledger knows. */
export async function readInvoiced(pool: Pool, day: string): Promise<InvoiceRow[]> {
  return await askLong<InvoiceRow>(
    pool,
    `WITH billed AS (
       SELECT upstream, model, cost_nanos FROM billing.provider_cost WHERE day = $1
     ), expected AS (
       SELECT upstream, model_served AS model, sum(upstream_cost_nanos) AS cost_nanos FROM billing.ledger_line AS line
       WHERE day = $1 AND upstream IN (SELECT upstream FROM billed)
         AND (kind IN (1, 3) OR ${provisionalOnly}) AND upstream_cost_nanos <> 0
       GROUP BY 1, 2
     )
     SELECT upstream, coalesce(model, '') AS model, billed.cost_nanos::text AS billed,
       expected.cost_nanos::text AS expected
     FROM billed FULL JOIN expected USING (upstream, model) ORDER BY 1, 2 LIMIT 1000`,
    [day],
  );
}
