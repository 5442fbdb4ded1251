import type { Window } from "../records/finding.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { plainArray } from "./arrays.ts";
import { askLong, longestMs, ofWindow, windowValues } from "./reconcile-query.ts";
import { isDetached } from "./partitions.ts";
import { hourOf } from "./sum-columns.ts";
import { firstDayOfBooked, readWithSums, type SumState } from "./sum-state.ts";
import { createValues } from "./values.ts";

/** An account or key whose kept sum is not the sum of its lines; the first of many, with figures for all. */
export type SumRow = { what: string; kept: string; summed: string; rows: bigint; offNanos: string };

/** Accounts with calls in the window or money booked by hand since its first day; one more than `limit` says: more. */
export async function readChangedAccounts(pool: Pool, window: Window, limit: number): Promise<string[]> {
  const rows = await askLong<{ id: string }>(
    pool,
    `SELECT account_id AS id FROM (
       SELECT account_id FROM billing.ledger_line WHERE ${ofWindow} AND kind <= 3
       UNION SELECT account_id FROM billing.payment WHERE day >= $1
       UNION SELECT account_id FROM billing.correction WHERE day >= $1
       UNION SELECT account_id FROM billing.refund WHERE day >= $1
     ) AS changed LIMIT $5`,
    [...windowValues(window), limit + 1],
  );
  return rows.map(({ id }) => id);
}

/** How many accounts there are. */
export async function countAccounts(pool: Pool): Promise<bigint> {
  const [row] = await askLong<{ accounts: bigint }>(pool, "SELECT count(*) AS accounts FROM billing.account", []);
  return row?.accounts ?? 0n;
}

const amounts = `sum(amount_nanos) AS amount, coalesce(sum(amount_nanos) FILTER (WHERE kind = 4), 0) AS credited,
  coalesce(-sum(amount_nanos) FILTER (WHERE kind <= 3), 0) AS charged`;

/**
 * Adds up the lines of accounts (all, when none are named) and of their keys, in one statement and so at one instant,
 * and tells which sums are kept otherwise. Money invariant I1. Of lines that are summed up the sums are taken.
 */
export async function findWrongSums(pool: Pool, accountIds: readonly string[] | undefined): Promise<SumRow[]> {
  return await readWithSums(pool, async (db, state) => {
    await db.query(`SET LOCAL statement_timeout = ${longestMs}`);
    const question = { ...wrongSums(accountIds, state), query_timeout: longestMs + 5_000 };
    return (await db.query<SumRow>(question)).rows;
  });
}

function wrongSums(accountIds: readonly string[] | undefined, state: SumState): { text: string; values: unknown[] } {
  const { all: values, name } = createValues();
  const named = accountIds ? `account_id = ANY (${name(plainArray(accountIds))}::text[])` : "true";
  const lines = (where: string): string =>
    `SELECT account_id, key_id, ${amounts} FROM billing.ledger_line WHERE ${named} AND ${where} GROUP BY 1, 2`;
  const open = `line_id >= ${name(firstUuidAt(state.summedUntilMs))}
    AND day >= ${name(firstDayOfBooked(state.summedUntilMs))}`;
  // Of days that were closed before there were sums of hours, booked_sum has the lines already.
  const unsummed = state.unsummed.filter(({ isClosed }) => !isClosed).map(({ day }) => day);
  const unsummedLines = `day = ANY (${name(plainArray(unsummed))}::date[])
    AND line_id < ${name(firstUuidAt(state.backfillUntilMs))}`;
  const text = `WITH line AS (
       ${lines(open)} UNION ALL ${lines(unsummedLines)}
       UNION ALL
       SELECT account_id, nullif(key_id, ''), ${amounts} FROM billing.hour_sum
       WHERE ${named} AND booked_at >= ${name(new Date(state.dayUntilMs))} GROUP BY 1, 2
       UNION ALL
       SELECT account_id, nullif(key_id, ''), amount_nanos, credited_nanos, charged_nanos
       FROM billing.booked_sum WHERE ${named}
    ), account_sum AS (
       SELECT account_id, sum(amount) AS balance, sum(credited) AS credited, sum(charged) AS charged
       FROM line GROUP BY account_id
     ), key_sum AS (
       SELECT key_id, -sum(amount) AS spent FROM line WHERE key_id IS NOT NULL GROUP BY key_id
     ), kept AS (SELECT * FROM billing.account WHERE ${named}),
     kept_key AS (SELECT * FROM billing.key_spending WHERE ${named}),
     off AS (
       SELECT 'account ' || account_id AS what,
         concat_ws(' ', kept.balance_nanos, kept.credited_nanos, kept.charged_nanos) AS kept,
         concat_ws(' ', balance, credited, charged) AS summed,
         greatest(abs(coalesce(kept.balance_nanos, 0) - coalesce(balance, 0)),
           abs(coalesce(kept.credited_nanos, 0) - coalesce(credited, 0)),
           abs(coalesce(kept.charged_nanos, 0) - coalesce(charged, 0))) AS nanos
       FROM kept FULL JOIN account_sum USING (account_id)
       UNION ALL
       SELECT 'key ' || key_id, kept_key.spent_nanos::text, spent::text,
         abs(coalesce(kept_key.spent_nanos, 0) - coalesce(spent, 0))
       FROM kept_key FULL JOIN key_sum USING (key_id)
     )
     SELECT what, coalesce(kept, '') AS kept, coalesce(summed, '') AS summed, count(*) OVER () AS rows,
       sum(nanos) OVER ()::text AS "offNanos"
     FROM off WHERE nanos <> 0 ORDER BY nanos DESC, what LIMIT 100`;
  return { text, values };
}

/** A call that breaks a rule about its lines. */
export type CallRow = { rid: string; problem: string; rows: bigint; offNanos: string };

// The day of a call's lines is that of its rid.
const dayOfRid = (rid: string): string => `(${hourOf(rid)} AT TIME ZONE 'UTC')::date`;

/**
 * Calls of the window that are charged twice or otherwise than they cost, and refunds above their charge (money
 * invariants I2, I3). A second line of the same kind can only be on another day than that of the rid, so lines on a
 * wrong day are looked for from `firstDay` on, of those that were booked in the window or later. Of a call whose day
 * has left nobody can tell what it was charged.
 */
export async function findWrongCalls(pool: Pool, window: Window, firstDay: string): Promise<CallRow[]> {
  return await askLong<CallRow>(
    pool,
    `WITH call AS (
       SELECT rid, count(*) FILTER (WHERE kind IN (1, 2)) AS charges, count(*) FILTER (WHERE kind = 2) AS provisionals,
         count(*) FILTER (WHERE kind = 3) AS adjustments, -sum(amount_nanos) AS charged, max(cost_nanos) AS cost,
         count(*) FILTER (WHERE cost_nanos IS NULL) AS unknown
       FROM billing.ledger_line WHERE ${ofWindow} AND kind <= 3 GROUP BY rid
     ), refunded AS (
       SELECT rid, charged + given_back AS nanos
       FROM (SELECT DISTINCT rid FROM billing.ledger_line WHERE day >= $1 AND kind = 6 AND rid IS NOT NULL) AS given,
         LATERAL (SELECT coalesce(sum(amount_nanos), 0) AS charged FROM billing.ledger_line AS c
           WHERE c.rid = given.rid AND c.kind <= 3 AND c.day = ${dayOfRid("given.rid")}) AS charge,
         LATERAL (SELECT sum(amount_nanos) AS given_back FROM billing.ledger_line AS r
           WHERE r.rid = given.rid AND r.kind > 3 AND r.kind = 6) AS refund
       WHERE charged + given_back > 0 AND NOT EXISTS (${isDetached(dayOfRid("given.rid"))})
     ), problem AS (
       SELECT rid, CASE WHEN charges > 1 THEN 'charged ' || charges || ' times'
           WHEN adjustments > provisionals THEN 'adjusted without a provisional charge'
           ELSE 'charged ' || charged || ' for a cost of ' || cost END AS problem,
         abs(charged - coalesce(cost, charged)) AS nanos
       FROM call WHERE charges > 1 OR adjustments > provisionals OR (unknown = 0 AND charged <> cost)
       UNION ALL SELECT rid, 'refunded ' || nanos || ' more than it was charged', nanos FROM refunded
       UNION ALL SELECT rid, 'a charge on ' || day || ', which is not the day of its rid', abs(amount_nanos)
       FROM billing.ledger_line WHERE day >= $5 AND line_id >= $3 AND kind <= 3 AND day <> ${dayOfRid("rid")}
     )
     SELECT rid, problem, count(*) OVER () AS rows, sum(nanos) OVER ()::text AS "offNanos"
     FROM problem ORDER BY rid, problem LIMIT 100`,
    [...windowValues(window), firstDay],
  );
}
