import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { plainArray } from "./arrays.ts";
import { unitColumns } from "./columns.ts";
import type { Queryable } from "#shared/postgres.ts";

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

export type UsageGroup = "none" | "day" | "model" | "key";

export type UsageQuery = {
  accountId: string;
  days: { first: string; last: string };
  /** Calls whose rid is at least the first and below the second. */
  rids: { from: string; until: string };
  groupBy: UsageGroup;
};

/** Sums of a group; `units` in the order of usageBuckets. */
export type UsageSumRow = { group: string; calls: bigint; chargedNanos: bigint; units: bigint[] };

const groupExpressions: Record<UsageGroup, string> = {
  none: "''::text",
  day: "day::text",
  model: "model_requested",
  key: "key_id",
};

/** Sums the calls of an account, in the order of groups. */
export async function sumUsage(db: Queryable, query: UsageQuery): Promise<UsageSumRow[]> {
  const group = groupExpressions[query.groupBy];
  const units = unitColumns.map((name) => `coalesce(sum(${name}), 0)`);
  type Row = { group: string; calls: bigint; charged: string; units: string[] };
  // A call has one line of kind 1 or 2; its adjustment, kind 3, adds only what its provisional line lacks.
  const { rows } = await db.query<Row>(
    `SELECT ${group} AS "group", count(*) FILTER (WHERE kind < 3) AS calls,
       (-sum(amount_nanos))::text AS charged, ARRAY[${units.join(", ")}]::text[] AS units
     FROM billing.ledger_line
     WHERE account_id = $1 AND kind <= 3 AND day BETWEEN $2 AND $3 AND rid >= $4 AND rid < $5
     GROUP BY 1 ORDER BY 1`,
    [query.accountId, query.days.first, query.days.last, query.rids.from, query.rids.until],
  );
  return rows.map((row) => ({
    group: row.group,
    calls: row.calls,
    chargedNanos: BigInt(row.charged),
    units: row.units.map(BigInt),
  }));
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
