import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { plainArray } from "./arrays.ts";
import { dayMs } from "#shared/process/clock.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { dayOfMs, newestDays } from "../records/check.ts";
import { firstDayOfBooked, readSumState } from "./sum-state.ts";
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

// Where sums cannot tell which days to look into: a page is mostly of a day or a month.
const reachesMs = [dayMs, 31 * dayMs];

/** Lines of an account, newest first; those of a call from all days, else from as few days as hold so many. */
export async function readLines(db: Queryable, query: LineQuery): Promise<LineRow[]> {
  if (query.call) return await readPage(db, query, {});
  const bookedFromMs = Math.floor((query.newestMs - dayMs) / dayMs) * dayMs;
  const newest = await readPage(db, query, { bookedFromMs });
  if (newest.length >= query.limit) return newest;
  const older = await readOlder(db, { ...query, limit: query.limit - newest.length }, bookedFromMs);
  return older ? [...newest, ...older] : await readFarther(db, query);
}

async function readFarther(db: Queryable, query: LineQuery): Promise<LineRow[]> {
  for (const reachMs of reachesMs) {
    const page = await readPage(db, query, { bookedFromMs: query.newestMs - reachMs });
    if (page.length >= query.limit) return page;
  }
  return await readPage(db, query, {});
}

/**
 * Lines that were booked before a midnight, from the days on which the sums of days say that there are some: a customer
 * with few calls has them on few days, and to plan a look into each day of a ledger takes longer than all else.
 * Undefined where the sums do not reach, or tell of lines that have left the ledger.
 */
async function readOlder(db: Queryable, query: LineQuery, bookedUntilMs: number): Promise<LineRow[] | undefined> {
  const { accountId, kind, limit } = query;
  const { dayUntilMs, unsummed } = await readSumState(db);
  if (bookedUntilMs > dayUntilMs || unsummed.length > 0) return undefined;
  const where = `account_id = $1 AND booked_at < $2 AND ($3::smallint IS NULL OR kind = $3)`;
  const values = [accountId, new Date(bookedUntilMs), kind ?? null];
  // Each row is of a line at least.
  const { rows: newest } = await db.query<{ bookedAt: Date; lines: bigint }>(
    `SELECT booked_at AS "bookedAt", lines FROM billing.day_sum WHERE ${where} ORDER BY booked_at DESC LIMIT $4`,
    [...values, limit],
  );
  let lines = 0n;
  const last = newest.find((row) => (lines += row.lines) >= BigInt(limit)) ?? newest.at(-1);
  if (!last) return [];
  const { rows: days } = await db.query<{ day: string }>(
    `SELECT DISTINCT (called_at AT TIME ZONE 'UTC')::date::text AS day FROM billing.day_sum
     WHERE ${where} AND booked_at >= $4`,
    [...values, last.bookedAt],
  );
  const span = { bookedFromMs: last.bookedAt.getTime(), bookedUntilMs, days: days.map(({ day }) => day) };
  const page = await readPage(db, query, span);
  return BigInt(page.length) >= (lines < BigInt(limit) ? lines : BigInt(limit)) ? page : undefined;
}

/** Which lines: booked from the one to before the other, and of these ledger days. */
type Reach = { bookedFromMs?: number; bookedUntilMs?: number; days?: readonly string[] };

async function readPage(
  db: Queryable,
  { accountId, limit, before, call, kind }: LineQuery,
  { bookedFromMs, bookedUntilMs, days }: Reach,
): Promise<LineRow[]> {
  const values: unknown[] = [];
  const value = (given: unknown): string => `$${values.push(given)}`;
  const conditions = [`account_id = ${value(accountId)}`];
  if (before) conditions.push(`line_id < ${value(before.lineId)}`, `day <= ${value(before.day)}`);
  if (kind) conditions.push(`kind = ${value(kind)}`);
  if (bookedFromMs !== undefined) {
    conditions.push(`line_id >= ${value(firstUuidAt(Math.max(0, bookedFromMs)))}`);
    if (!days) conditions.push(`day >= ${value(firstDayOfBooked(bookedFromMs))}`);
  }
  if (bookedUntilMs !== undefined) conditions.push(`line_id < ${value(firstUuidAt(bookedUntilMs))}`);
  if (days) conditions.push(`day = ANY (${value(plainArray(days))}::date[])`);
  const select = (more: string[]): string =>
    `SELECT ${lineColumns} FROM billing.ledger_line WHERE ${[...conditions, ...more].join(" AND ")}`;
  let lines = select([]);
  if (call) {
    // Charges are on the day of the call, where the unique index finds them; what people booked about it is later.
    const rid = `rid = ${value(call.rid)}`;
    const about = [rid, "kind > 3", `day >= ${value(firstDayAbout(call.day))}`];
    lines = `${select([rid, "kind <= 3", `day = ${value(call.day)}`])} UNION ALL ${select(about)}`;
  }
  const { rows } = await db.query<LineRow>(`${lines} ORDER BY "lineId" DESC LIMIT ${value(limit)}`, values);
  return rows;
}

/** The first day of what is booked about a call of this day: the clock of its relay may have been ahead by a day. */
export const firstDayAbout = (day: string): string => dayOfMs(Date.parse(day) - newestDays * dayMs);

const maxLinesOfCall = 1_000;

/** All lines of a call of this day, whosever they are, in the order in which they were booked; at most 1,000. */
export async function readCallLines(db: Queryable, { rid, day }: { rid: string; day: string }): Promise<LineRow[]> {
  // As in readLines: charges are on the day of the call, what people booked about it is later.
  const { rows } = await db.query<LineRow>(
    `SELECT ${lineColumns} FROM billing.ledger_line WHERE rid = $1 AND kind <= 3 AND day = $2
     UNION ALL SELECT ${lineColumns} FROM billing.ledger_line WHERE rid = $1 AND kind > 3 AND day >= $3
     ORDER BY "lineId" LIMIT ${maxLinesOfCall}`,
    [rid, day, firstDayAbout(day)],
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
