import type pg from "pg";
import type { LineKind } from "#proto/billing/v1/billing_pb.ts";
import type { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { plainArray } from "./arrays.ts";
import { dayMs } from "#shared/process/clock.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { dayOfMs, newestDays } from "../records/check.ts";
import { firstDayOfBooked, readSumState } from "./sum-state.ts";
import type { Queryable } from "#shared/stores/postgres.ts";
import { createValues } from "./values.ts";

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
export const readLines = (db: Queryable, query: LineQuery): Promise<LineRow[]> =>
  readRows<LineRow>(db, query, () => lineColumns);

/** Which calls; undefined: all. */
export type CallFilter = {
  keyId: string | undefined;
  model: string | undefined;
  /** The causes with which a call ended; `isOf` false: any other. */
  ended: { isOf: boolean; cause: EndCause } | undefined;
};

type FoundLines = {
  lines: LineRow[];
  /** The last line that was looked at, where there may be more after it. */
  lookedUpTo: string | undefined;
};

// What is looked at of a line that is not wanted is a hundred bytes of it: its event stays where it is.
const maxLooked = 5_000;

type LookedRow = { lineId: string; day: string; isWanted: boolean };

/** The lines among the next 5,000 that a filter lets through, newest first. */
export async function findLines(db: Queryable, query: LineQuery, filter: CallFilter): Promise<FoundLines> {
  const looked = await readRows<LookedRow>(
    db,
    { ...query, limit: maxLooked },
    (value) => `line_id AS "lineId", day::text AS day, ${conditionsOf(filter, value)} AS "isWanted"`,
  );
  const wanted = looked.filter(({ isWanted }) => isWanted);
  const found = wanted.slice(0, query.limit);
  const last = wanted.length > found.length ? found.at(-1) : looked.length === maxLooked ? looked.at(-1) : undefined;
  return { lines: await readFound(db, query.accountId, found), lookedUpTo: last?.lineId };
}

function conditionsOf({ keyId, model, ended }: CallFilter, value: Value): string {
  const conditions: string[] = [];
  if (keyId !== undefined) conditions.push(`coalesce(key_id, '') = ${value(keyId)}`);
  if (model !== undefined) conditions.push(`coalesce(model_requested, '') = ${value(model)}`);
  if (ended) conditions.push(`(coalesce(end_cause, 0) = ${value(ended.cause)}) = ${value(ended.isOf)}`);
  return `(${conditions.join(" AND ") || "true"})`;
}

async function readFound(db: Queryable, accountId: string, found: readonly LookedRow[]): Promise<LineRow[]> {
  if (found.length === 0) return [];
  const { rows } = await db.query<LineRow>(
    `SELECT ${lineColumns} FROM billing.ledger_line
     WHERE account_id = $1 AND line_id = ANY ($2::uuid[]) AND day = ANY ($3::date[]) ORDER BY line_id DESC`,
    [accountId, plainArray(found.map(({ lineId }) => lineId)), plainArray([...new Set(found.map(({ day }) => day))])],
  );
  return rows;
}

/** Names a value of the statement. */
type Value = (given: unknown) => string;
/** What is read of a line. */
type Columns = (value: Value) => string;

async function readRows<Row extends pg.QueryResultRow>(db: Queryable, query: LineQuery, columns: Columns) {
  if (query.call) return await readPage<Row>(db, query, {}, columns);
  const bookedFromMs = Math.floor((query.newestMs - dayMs) / dayMs) * dayMs;
  const newest = await readPage<Row>(db, query, { bookedFromMs }, columns);
  if (newest.length >= query.limit) return newest;
  const older = await readOlder<Row>(db, { ...query, limit: query.limit - newest.length }, bookedFromMs, columns);
  return older ? [...newest, ...older] : await readFarther<Row>(db, query, columns);
}

async function readFarther<Row extends pg.QueryResultRow>(db: Queryable, query: LineQuery, columns: Columns) {
  for (const reachMs of reachesMs) {
    const page = await readPage<Row>(db, query, { bookedFromMs: query.newestMs - reachMs }, columns);
    if (page.length >= query.limit) return page;
  }
  return await readPage<Row>(db, query, {}, columns);
}

/**
 * Lines that were booked before a midnight, from the days on which the sums of days say that there are some: a customer
 * with few calls has them on few days, and to plan a look into each day of a ledger takes longer than all else.
 * Undefined where the sums do not reach, or tell of lines that have left the ledger.
 */
async function readOlder<Row extends pg.QueryResultRow>(
  db: Queryable,
  query: LineQuery,
  bookedUntilMs: number,
  columns: Columns,
): Promise<Row[] | undefined> {
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
  const page = await readPage<Row>(db, query, span, columns);
  return BigInt(page.length) >= (lines < BigInt(limit) ? lines : BigInt(limit)) ? page : undefined;
}

/** Which lines: booked from the one to before the other, and of these ledger days. */
type Reach = { bookedFromMs?: number; bookedUntilMs?: number; days?: readonly string[] };

async function readPage<Row extends pg.QueryResultRow>(
  db: Queryable,
  { accountId, limit, before, call, kind }: LineQuery,
  { bookedFromMs, bookedUntilMs, days }: Reach,
  columns: Columns,
): Promise<Row[]> {
  const { all: values, name: value } = createValues();
  const conditions = [`account_id = ${value(accountId)}`];
  if (before) conditions.push(`line_id < ${value(before.lineId)}`, `day <= ${value(before.day)}`);
  if (kind) conditions.push(`kind = ${value(kind)}`);
  if (bookedFromMs !== undefined) {
    conditions.push(`line_id >= ${value(firstUuidAt(Math.max(0, bookedFromMs)))}`);
    if (!days) conditions.push(`day >= ${value(firstDayOfBooked(bookedFromMs))}`);
  }
  if (bookedUntilMs !== undefined) conditions.push(`line_id < ${value(firstUuidAt(bookedUntilMs))}`);
  if (days) conditions.push(`day = ANY (${value(plainArray(days))}::date[])`);
  const selected = columns(value);
  const select = (more: string[]): string =>
    `SELECT ${selected} FROM billing.ledger_line WHERE ${[...conditions, ...more].join(" AND ")}`;
  let lines = select([]);
  if (call) {
    // Charges are on the day of the call, where the unique index finds them; what people booked about it is later.
    const rid = `rid = ${value(call.rid)}`;
    const about = [rid, "kind > 3", `day >= ${value(firstDayAbout(call.day))}`];
    lines = `${select([rid, "kind <= 3", `day = ${value(call.day)}`])} UNION ALL ${select(about)}`;
  }
  const { rows } = await db.query<Row>(`${lines} ORDER BY "lineId" DESC LIMIT ${value(limit)}`, values);
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

/** Which of these calls have a final charge. Their rids must have been checked. */
export async function readFinalRids(db: Queryable, rids: readonly string[]): Promise<Set<string>> {
  if (rids.length === 0) return new Set();
  const days = [...new Set(rids.map((rid) => dayOfMs(ridTimeMs(rid) ?? 0)))];
  const { rows } = await db.query<{ rid: string }>(
    "SELECT rid FROM billing.ledger_line WHERE day = ANY ($1::date[]) AND rid = ANY ($2::uuid[]) AND kind IN (1, 3)",
    [plainArray(days), plainArray(rids)],
  );
  return new Set(rows.map(({ rid }) => rid));
}
