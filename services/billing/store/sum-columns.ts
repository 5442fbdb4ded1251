import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { unitColumns } from "./columns.ts";

/** Ids of rows of the ledger, line_id and rid, are UUIDv7: the hour in their first 48 bits. */
export const hourOf = (id: string): string =>
  `to_timestamp(('x' || left(replace(${id}::text, '-', ''), 12))::bit(48)::bigint / 3600000 * 3600)`;

/** The start of a day (UTC) that is a date. */
export const startOfDay = (day: string): string => `(${day}::timestamp AT TIME ZONE 'UTC')`;

const hasFailed = (line: string): string =>
  `(${line}.end_cause NOT IN (${EndCause.COMPLETE}, ${EndCause.CLIENT_GONE}))::int`;

const provisionalOf = "p.rid = l.rid AND p.day = l.day AND p.kind = 2";

/**
 * What a line `l` adds to the calls that ended otherwise than whole or by their caller's leaving. A call has one line
 * of kind 1 or 2; its adjustment, kind 3, tells how it ended after all, and is counted against its provisional line,
 * `p`, if `isSeen`.
 */
export const failedOf = (isSeen: string): string => `CASE WHEN l.kind < 3 THEN coalesce(${hasFailed("l")}, 0)
  WHEN l.kind = 3 THEN coalesce((SELECT ${hasFailed("l")} - coalesce(${hasFailed("p")}, 0)
    FROM billing.ledger_line AS p WHERE ${provisionalOf} AND ${isSeen}), 0) ELSE 0 END`;

const unitSums = unitColumns.map((name) => `sum(${name}) AS ${name}`).join(", ");

/** What hour_sum and day_sum hold beside what they are grouped by. */
export const sumColumns = ["lines", "failed", "amount_nanos", ...unitColumns].join(", ");

/** What hour_sum and day_sum are grouped by. */
export const groupColumns = "account_id, booked_at, opened_at, called_at, kind, key_id, model";

/**
 * Lines, summed up as hour_sum has them, in the order of accounts: what is read together shall lie together. `where`
 * says which, as `l`; `provisionalDays` bounds, as `p`, the days of their calls, for the planner.
 */
export const hourSums = (where: string, provisionalDays: string): string => `
  SELECT ${groupColumns}, count(*) AS lines, sum(failed) AS failed, sum(amount_nanos) AS amount_nanos, ${unitSums}
  FROM (
    SELECT l.account_id, ${hourOf("l.line_id")} AS booked_at,
      CASE WHEN l.kind = 3 THEN coalesce((SELECT ${hourOf("p.line_id")} FROM billing.ledger_line AS p
        WHERE ${provisionalOf} AND ${provisionalDays}), ${hourOf("l.line_id")}) ELSE ${hourOf("l.line_id")} END
        AS opened_at,
      CASE WHEN l.kind <= 3 THEN ${hourOf("l.rid")} ELSE ${startOfDay("l.day")} END AS called_at, l.kind,
      coalesce(l.key_id, '') AS key_id, coalesce(l.model_requested, '') AS model,
      ${failedOf(provisionalDays)} AS failed, l.amount_nanos, ${unitColumns.map((name) => `l.${name}`).join(", ")}
    FROM billing.ledger_line AS l WHERE ${where}
  ) AS line GROUP BY ${groupColumns} ORDER BY account_id`;

/** Rows of hour_sum, summed up as day_sum has them. */
export const daySums = (from: string): string => `
  SELECT account_id, date_trunc('day', booked_at, 'UTC') AS booked_at, CASE WHEN kind = 3 THEN opened_at
    ELSE date_trunc('day', booked_at, 'UTC') END AS opened_at,
    date_trunc('day', called_at, 'UTC') AS called_at, kind, key_id, model, sum(lines) AS lines, sum(failed) AS failed,
    sum(amount_nanos) AS amount_nanos, ${unitSums}
  FROM ${from} GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1`;
