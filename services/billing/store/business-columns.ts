import { EndCause, UsageSource } from "#proto/usage/v1/usage_pb.ts";

/** What route_sum and account_sum count, and what they add up. */
export const businessColumns = [
  "calls",
  "failed_calls",
  "upstream_failed_calls",
  "gone_calls",
  "free_calls",
  "uncosted_calls",
  "charged_nanos",
  "uncosted_nanos",
  "cost_nanos",
  "refunded_nanos",
  "credited_nanos",
  "corrected_nanos",
] as const;

const upstreamFaults = [EndCause.UPSTREAM_ERROR, EndCause.UPSTREAM_CUT, EndCause.UPSTREAM_TIMEOUT].join(", ");
const served = `${EndCause.COMPLETE}, ${EndCause.CLIENT_GONE}`;

const callOf = (line: string): string =>
  `${line}.day, ${line}.account_id, coalesce(${line}.model_requested, '') AS model,
   coalesce(${line}.upstream, '') AS upstream, ${line}.upstream_cost_nanos AS cost, ${line}.end_cause AS cause,
   ${line}.usage_source AS source`;

/**
 * Lines `l` as rows of sums, before they are grouped. A call counts as its last line says: a final that follows a
 * provisional record takes that one's place, whichever of both is summed up first. `provisionalDays` bounds, as `p`,
 * the days of their calls, for the planner.
 */
export const businessRows = (where: string, provisionalDays: string): string => `
  WITH line AS MATERIALIZED (SELECT * FROM billing.ledger_line AS l WHERE ${where}),
  replaced AS MATERIALIZED (
    SELECT p.* FROM line AS l JOIN billing.ledger_line AS p
      ON p.rid = l.rid AND p.day = l.day AND p.kind = 2 AND ${provisionalDays} WHERE l.kind = 3
  ),
  call AS (
    SELECT ${callOf("l")}, 1 AS sign, -l.amount_nanos AS charged FROM line AS l WHERE l.kind < 3
    UNION ALL
    SELECT ${callOf("l")}, 1, -l.amount_nanos - coalesce(p.amount_nanos, 0)
    FROM line AS l LEFT JOIN replaced AS p USING (rid) WHERE l.kind = 3
    UNION ALL
    SELECT ${callOf("p")}, -1, -p.amount_nanos FROM replaced AS p
  ),
  judged AS (
    SELECT *, (cost IS NULL AND upstream <> '' AND source IS DISTINCT FROM ${UsageSource.NONE})::int AS uncosted
    FROM call
  )
  SELECT day, account_id, model, upstream, sign AS calls, sign * coalesce(cause NOT IN (${served}), false)::int
      AS failed_calls,
    sign * coalesce(cause IN (${upstreamFaults}), false)::int AS upstream_failed_calls,
    sign * coalesce(cause = ${EndCause.CLIENT_GONE}, false)::int AS gone_calls,
    sign * (coalesce(cause IN (${served}), false) AND charged = 0)::int AS free_calls,
    sign * uncosted AS uncosted_calls, sign * charged AS charged_nanos, sign * uncosted * charged AS uncosted_nanos,
    sign * coalesce(cost, 0) AS cost_nanos, 0 AS refunded_nanos, 0 AS credited_nanos, 0 AS corrected_nanos
  FROM judged
  UNION ALL
  SELECT day, account_id, '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, amount_nanos * (kind = 6)::int,
    amount_nanos * (kind = 4)::int, amount_nanos * (kind = 5)::int
  FROM line WHERE kind > 3`;

export const sumsOfBusiness = businessColumns.map((name) => `sum(${name}) AS ${name}`).join(", ");

/** The tables, and what their rows are of beside the day. */
export const businessTables = [
  { table: "route_sum", of: "model, upstream" },
  { table: "account_sum", of: "account_id" },
] as const;
