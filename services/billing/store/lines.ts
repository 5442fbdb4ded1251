import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { plainArray } from "./arrays.ts";
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
