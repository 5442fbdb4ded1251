import type { Reject } from "../records/read-event.ts";
import { bytesArray, hexArray, numberArray, plainArray, textArray } from "./arrays.ts";
import { firstDayAbout } from "./lines.ts";
import { hourOf } from "./sum-columns.ts";
import type { Queryable } from "#shared/stores/postgres.ts";

export type QuarantineRow = {
  quarantineId: bigint;
  reason: string;
  payload: Buffer;
  rid: string | null;
  receivedAt: Date;
  /** Whether nobody has settled it; see isOpen. */
  isOpen: boolean;
};

/** Whether a row of the quarantine, as `q`, is of an event that is booked all the same: counts that cannot be. */
export const isDoubt = "q.reason LIKE 'usage\\_impossible:%'";

/** Which days of lines are looked at: of calls, of what is booked about calls, of corrections; "false": none. */
type SettlingDays = { ofCalls: string; ofLinesAbout: string; ofCorrections: string };

const none = "false";

// What looks nowhere is left out: to plan it, PostgreSQL opens every day of a ledger before it finds that out.
function isOpenBy({ ofCalls, ofLinesAbout, ofCorrections }: SettlingDays): string {
  const conditions = [`NOT EXISTS (${booked})`];
  if (ofLinesAbout !== none)
    conditions.push(`NOT EXISTS (
      SELECT FROM billing.ledger_line AS line WHERE line.kind > 3 AND line.rid = q.rid AND ${ofLinesAbout})`);
  if (ofCalls !== none)
    conditions.push(`(${isDoubt} OR NOT EXISTS (SELECT FROM billing.ledger_line AS line
      WHERE line.kind <= 3 AND line.rid = q.rid AND line.payload_hash = q.payload_hash AND ${ofCalls}))`);
  if (ofCorrections !== none)
    conditions.push(`q.quarantine_id::text NOT IN (
      SELECT (regexp_matches(line.note, '\\mquarantine (\\d+)\\M', 'g'))[1]
      FROM billing.correction JOIN billing.ledger_line AS line USING (account_id, line_id, day)
      WHERE ${ofCorrections})`);
  return conditions.join(" AND ");
}

const booked = "SELECT FROM billing.quarantine_booked AS booked WHERE booked.quarantine_id = q.quarantine_id";

/**
 * Whether a row of the quarantine, as `q`, waits for somebody: it was not booked after all, and nothing is booked by
 * hand for its call. A doubt is booked as it is; it waits for such a line, or to be tried again, which accepts it. One
 * without a rid can be settled by a correction whose note names it: "quarantine 17".
 */
export const isOpen = isOpenBy({ ofCalls: "true", ofLinesAbout: "true", ofCorrections: "true" });

/**
 * The same, with the days written out on which the lines that settle something can be: to plan a look into each day of
 * a ledger takes longer than the looks. Read again for each question; `false` where everything is noted as settled.
 */
async function readIsOpen(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ unsettled: bigint; odd: bigint; calls: string[]; corrections: string[] }>(
    `SELECT count(*) AS unsettled, count(*) FILTER (WHERE NOT ${isOfKnownTime}) AS odd,
       coalesce(
         array_agg(DISTINCT (${hourOf("rid")} AT TIME ZONE 'UTC')::date::text) FILTER (WHERE ${isOfKnownTime}), '{}'
       ) AS calls,
       ARRAY(SELECT DISTINCT day::text FROM billing.correction) AS corrections
     FROM billing.usage_quarantine AS q WHERE NOT EXISTS (${booked})`,
  );
  const { unsettled = 0n, odd = 0n, calls = [], corrections = [] } = rows[0] ?? {};
  if (unsettled === 0n) return "false";
  const [first] = calls.toSorted();
  const since = first === undefined ? none : `line.day >= '${firstDayAbout(first)}'`;
  return isOpenBy({
    ofCalls: isAmong(calls),
    ofLinesAbout: odd > 0n ? "true" : since,
    ofCorrections: isAmong(corrections),
  });
}

// A forged rid may tell any time up to the year 10889. No call of such a time is booked, but a person may name the rid.
const isOfKnownTime = `${hourOf("rid")} BETWEEN '2020-01-01' AND now() + interval '3 days'`;

const isAmong = (days: readonly string[]): string =>
  days.length === 0 ? none : `line.day = ANY ('${plainArray(days)}'::date[])`;

/** Writes down which entries are settled: lines that tell so may leave the ledger. */
export const noteSettled = `INSERT INTO billing.quarantine_booked (quarantine_id)
  SELECT quarantine_id FROM billing.usage_quarantine AS q WHERE NOT (${isOpen}) ON CONFLICT DO NOTHING`;

const maxReasonLength = 500;

/** Keeps what cannot be booked; the same bytes are kept once. Returns those that were not there before. */
export async function insertQuarantine(db: Queryable, rejects: readonly Reject[]): Promise<Reject[]> {
  if (rejects.length === 0) return [];
  const { rows } = await db.query<{ hash: string }>(
    `INSERT INTO billing.usage_quarantine (reason, payload, payload_hash, rid, stream_sequence)
     SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[])
     ON CONFLICT (payload_hash) DO NOTHING RETURNING encode(payload_hash, 'hex') AS hash`,
    [
      textArray(rejects.map(reasonOf)),
      bytesArray(rejects.map(({ payload }) => payload)),
      hexArray(rejects.map(({ hash }) => hash)),
      textArray(rejects.map(({ rid }) => rid ?? null)),
      numberArray(rejects.map(({ streamSequence }) => streamSequence ?? null)),
    ],
  );
  const added = new Set(rows.map(({ hash }) => hash));
  return rejects.filter(({ hash }) => added.has(hash));
}

// Errors of parsers may quote what they read, and text in PostgreSQL holds no NUL.
function reasonOf({ reason, detail }: Reject): string {
  return `${reason}: ${detail}`.replaceAll("\0", "").slice(0, maxReasonLength);
}

const quarantineColumns = (isStillOpen: string): string =>
  `quarantine_id AS "quarantineId", reason, payload, rid, received_at AS "receivedAt", ${isStillOpen} AS "isOpen"`;

export type QuarantineQuery = {
  /** Entries before this one. */
  before: bigint | undefined;
  onlyOpen: boolean;
  limit: number;
};

/** Entries, the newest first. */
export async function readQuarantine(
  db: Queryable,
  { before, onlyOpen, limit }: QuarantineQuery,
): Promise<QuarantineRow[]> {
  const isStillOpen = await readIsOpen(db);
  const { rows } = await db.query<QuarantineRow>(
    `SELECT ${quarantineColumns(onlyOpen ? "true" : isStillOpen)} FROM billing.usage_quarantine AS q
     WHERE ($1::bigint IS NULL OR quarantine_id < $1) ${onlyOpen ? `AND ${isStillOpen}` : ""}
     ORDER BY quarantine_id DESC LIMIT $2`,
    [before, limit],
  );
  return rows;
}

const maxCounted = 1_000;

/** How many entries are open, counted up to 1,000, and for how many seconds the oldest of them is there. */
export async function sumUpQuarantine(db: Queryable): Promise<{ open: number; oldestSeconds: number }> {
  const isStillOpen = await readIsOpen(db);
  const { rows } = await db.query<{ open: number; oldestSeconds: number }>(
    `SELECT count(*)::int AS open,
       coalesce(extract(epoch FROM now() - min(received_at)), 0)::float8 AS "oldestSeconds"
     FROM (
       SELECT received_at FROM billing.usage_quarantine AS q WHERE ${isStillOpen} ORDER BY quarantine_id LIMIT $1
     ) AS o`,
    [maxCounted],
  );
  return rows[0] ?? { open: 0, oldestSeconds: 0 };
}

/** An entry by its number; undefined when there is none. */
export async function readQuarantined(db: Queryable, quarantineId: bigint): Promise<QuarantineRow | undefined> {
  const { rows } = await db.query<QuarantineRow>(
    `SELECT ${quarantineColumns(await readIsOpen(db))} FROM billing.usage_quarantine AS q WHERE quarantine_id = $1`,
    [quarantineId],
  );
  return rows[0];
}

/** Writes down that the ledger has all of an entry: it is open no longer. */
export async function markQuarantineBooked(db: Queryable, quarantineId: bigint): Promise<void> {
  await db.query("INSERT INTO billing.quarantine_booked (quarantine_id) VALUES ($1) ON CONFLICT DO NOTHING", [
    quarantineId,
  ]);
}

/**
 * Writes down which entries are settled, by whatever line, and forgets those of which that was 400 days ago; returns
 * how many.
 */
export async function forgetSettled(db: Queryable): Promise<bigint> {
  await db.query(noteSettled);
  const { rows } = await db.query<{ forgotten: bigint }>("SELECT billing.forget_settled() AS forgotten");
  return rows[0]?.forgotten ?? 0n;
}

/** Which of these payload hashes are in quarantine, as hexadecimal. */
export async function findQuarantined(db: Queryable, hashes: readonly string[]): Promise<Set<string>> {
  if (hashes.length === 0) return new Set();
  const { rows } = await db.query<{ hash: string }>(
    "SELECT encode(payload_hash, 'hex') AS hash FROM billing.usage_quarantine WHERE payload_hash = ANY ($1::bytea[])",
    [hexArray(hashes)],
  );
  return new Set(rows.map(({ hash }) => hash));
}
