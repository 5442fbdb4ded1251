import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { plainArray } from "./arrays.ts";
import { dayMs } from "#shared/process/clock.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { firstDayOfBooked } from "./sum-state.ts";
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
  /** No line of the page was booked later; about is enough. */
  newestMs: number;
  /** Lines before this one, and the last day on which such a line can be. */
  before: { lineId: string; day: string } | undefined;
  /** Lines of one call, and the day of the call. */
  call: { rid: string; day: string } | undefined;
  kind: LineKind | undefined;
};

// A page is mostly of a day or a month: older days need then not be looked into.
const reachesMs = [dayMs, 31 * dayMs];

/** Lines of an account, newest first; those of a call from all days, else from as few days as hold so many. */
export async function readLines(db: Queryable, query: LineQuery): Promise<LineRow[]> {
  if (query.call) return await readPage(db, query, undefined);
  for (const reachMs of reachesMs) {
    const page = await readPage(db, query, query.newestMs - reachMs);
    if (page.length >= query.limit) return page;
  }
  return await readPage(db, query, undefined);
}

async function readPage(
  db: Queryable,
  { accountId, limit, before, call, kind }: LineQuery,
  bookedFromMs: number | undefined,
): Promise<LineRow[]> {
  const values: unknown[] = [];
  const value = (given: unknown): string => `$${values.push(given)}`;
  const conditions = [`account_id = ${value(accountId)}`];
  if (before) conditions.push(`line_id < ${value(before.lineId)}`, `day <= ${value(before.day)}`);
  if (kind) conditions.push(`kind = ${value(kind)}`);
  if (bookedFromMs !== undefined) {
    const firstDay = firstDayOfBooked(bookedFromMs);
    conditions.push(`line_id >= ${value(firstUuidAt(Math.max(0, bookedFromMs)))}`, `day >= ${value(firstDay)}`);
  }
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
