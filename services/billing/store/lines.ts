import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { plainArray } from "./arrays.ts";
import { unitColumns } from "./columns.ts";
import type { Queryable } from "#shared/stores/postgres.ts";

export type LineRow = {
  lineId: string;
  accountId: string;
  kind: LineKind;
  amountNanos: bigint;
  rid: string | null;
  reference: string | null;
  note: string | null;
  bookedAt: Date;
  /** The encoded usage.v1.UsageRecorded, for lines of calls. */
  event: Buffer | null;
};

/** What a LineRow is read from. */
export const lineColumns = `line_id AS "lineId", account_id AS "accountId", kind, amount_nanos AS "amountNanos", rid,
  reference, note, booked_at AS "bookedAt", event`;

export type LineQuery = {
  accountId: string;
  limit: number;
  /** Lines before this one, and the last day on which such a line can be. */
  before: { lineId: string; day: string } | undefined;
  /** Lines of one call, and the day of the call. */
  call: { rid: string; day: string } | undefined;
  kind: LineKind | undefined;
};

/** Lines of an account, newest first. */
export async function readLines(
  db: Queryable,
  { accountId, limit, before, call, kind }: LineQuery,
): Promise<LineRow[]> {
  const values: unknown[] = [];
  const value = (given: unknown): string => `$${values.push(given)}`;
  const conditions = [`account_id = ${value(accountId)}`];
  if (before) conditions.push(`line_id < ${value(before.lineId)}`, `day <= ${value(before.day)}`);
  if (kind) conditions.push(`kind = ${value(kind)}`);
  const select = (more: string[]): string =>
    `SELECT ${lineColumns} FROM billing.ledger_line WHERE ${[...conditions, ...more].join(" AND ")}`;
  let lines = select([]);
  if (call) {
    // Charges are on the day of the call, where the unique index finds them; what people booked about it is anywhere.
    const rid = `rid = ${value(call.rid)}`;
    lines = `${select([rid, "kind <= 3", `day = ${value(call.day)}`])} UNION ALL ${select([rid, "kind > 3"])}`;
  }
  const { rows } = await db.query<LineRow>(`${lines} ORDER BY "lineId" DESC LIMIT ${value(limit)}`, values);
  return rows;
}

const maxLinesOfCall = 1_000;

/** All lines of a call of this day, whosever they are, in the order in which they were booked; at most 1,000. */
export async function readCallLines(db: Queryable, { rid, day }: { rid: string; day: string }): Promise<LineRow[]> {
  // As in readLines: charges are on the day of the call, what people booked about it is anywhere.
  const { rows } = await db.query<LineRow>(
    `SELECT ${lineColumns} FROM billing.ledger_line WHERE rid = $1 AND kind <= 3 AND day = $2
     UNION ALL SELECT ${lineColumns} FROM billing.ledger_line WHERE rid = $1 AND kind > 3
     ORDER BY "lineId" LIMIT ${maxLinesOfCall}`,
    [rid, day],
  );
  return rows;
}

export type UsageGroup = "none" | "day" | "model" | "key";

export type UsageQuery = {
  accountId: string;
  /** Only calls of this key, or that named this model. */
  keyId: string | undefined;
  model: string | undefined;
  days: { first: string; last: string };
  /** Calls whose rid is at least the first and below the second. */
  rids: { from: string; until: string };
  groupBy: UsageGroup;
};

/** Sums of a group; `units` in the order of usageBuckets. */
export type UsageSumRow = {
  group: string;
  calls: bigint;
  /** Of the calls, those that ended otherwise than whole or by their caller's leaving. */
  failedCalls: bigint;
  chargedNanos: bigint;
  units: bigint[];
};

type SumRow = { group: string; calls: bigint; failed: bigint; charged: string; units: string[] };

/**
 * What a UsageSumRow is read from (toUsageSumRow), of charges as `l` grouped by an expression. A call has one line of
 * kind 1 or 2; its adjustment, kind 3, adds only what its provisional line lacks, and tells how it ended after all.
 * `isSeen` says which adjustments, as `a`, count for that: where none does, the provisional line tells.
 */
export function usageSumColumns(group: string, isSeen = "true"): string {
  const lastEndCause = `coalesce((SELECT a.end_cause FROM billing.ledger_line AS a
    WHERE a.rid = l.rid AND a.day = l.day AND a.kind = 3 AND ${isSeen}), l.end_cause)`;
  const endCause = `CASE l.kind WHEN 1 THEN l.end_cause WHEN 2 THEN ${lastEndCause} END`;
  const units = unitColumns.map((name) => `coalesce(sum(l.${name}), 0)`);
  return `${group} AS "group", count(*) FILTER (WHERE l.kind < 3) AS calls,
    count(*) FILTER (WHERE ${endCause} NOT IN (${EndCause.COMPLETE}, ${EndCause.CLIENT_GONE})) AS failed,
    (-sum(l.amount_nanos))::text AS charged, ARRAY[${units.join(", ")}]::text[] AS units`;
}

/** Reads what usageSumColumns asks for. */
export async function querySums(db: Queryable, text: string, values: unknown[]): Promise<UsageSumRow[]> {
  const { rows } = await db.query<SumRow>(text, values);
  return rows.map(({ group, calls, failed, charged, units }) => ({
    group,
    calls,
    failedCalls: failed,
    chargedNanos: BigInt(charged),
    units: units.map(BigInt),
  }));
}

const groupExpressions: Record<UsageGroup, string> = {
  none: "''::text",
  day: "l.day::text",
  model: "l.model_requested",
  key: "l.key_id",
};

/** Sums the calls of an account, in the order of groups. */
export async function sumUsage(db: Queryable, query: UsageQuery): Promise<UsageSumRow[]> {
  const { accountId, days, rids, keyId, model } = query;
  const values: unknown[] = [accountId, days.first, days.last, rids.from, rids.until];
  const conditions: string[] = [];
  if (keyId !== undefined) conditions.push(`AND l.key_id = $${values.push(keyId)}`);
  if (model !== undefined) conditions.push(`AND l.model_requested = $${values.push(model)}`);
  return await querySums(
    db,
    `SELECT ${usageSumColumns(groupExpressions[query.groupBy])} FROM billing.ledger_line AS l
     WHERE l.account_id = $1 AND l.kind <= 3 AND l.day BETWEEN $2 AND $3 AND l.rid >= $4 AND l.rid < $5
       ${conditions.join(" ")}
     GROUP BY 1 ORDER BY 1`,
    values,
  );
}

/** What corrections say about calls, in nano-USD by rid; calls about which none was booked are left out. */
export async function readByHandSums(db: Queryable, rids: readonly string[]): Promise<Map<string, bigint>> {
  if (rids.length === 0) return new Map();
  const { rows } = await db.query<{ rid: string; amount: string }>(
    `SELECT rid, sum(amount_nanos)::text AS amount FROM billing.ledger_line
     WHERE rid = ANY ($1::uuid[]) AND kind = 5 GROUP BY rid`,
    [plainArray(rids)],
  );
  return new Map(rows.map(({ rid, amount }) => [rid, BigInt(amount)]));
}
