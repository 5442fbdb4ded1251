import type { Reject } from "../records/read-event.ts";
import { bytesArray, hexArray, numberArray, textArray } from "./arrays.ts";
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

/**
 * Whether a row of the quarantine, as `q`, waits for somebody: it was not booked after all, and nothing is booked by
 * hand for its call. A doubt is booked as it is; it waits for such a line, or to be tried again, which accepts it. One
 * without a rid can be settled by a correction whose note names it: "quarantine 17".
 */
export const isOpen = `NOT EXISTS (SELECT FROM billing.ledger_line AS line WHERE line.kind > 3 AND line.rid = q.rid)
  AND (${isDoubt} OR NOT EXISTS (SELECT FROM billing.ledger_line AS line
    WHERE line.kind <= 3 AND line.rid = q.rid AND line.payload_hash = q.payload_hash))
  AND NOT EXISTS (SELECT FROM billing.quarantine_booked AS booked WHERE booked.quarantine_id = q.quarantine_id)
  AND q.quarantine_id::text NOT IN (
    SELECT (regexp_matches(line.note, '\\mquarantine (\\d+)\\M', 'g'))[1]
    FROM billing.correction JOIN billing.ledger_line AS line USING (account_id, line_id, day))`;

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

const quarantineColumns = `quarantine_id AS "quarantineId", reason, payload, rid, received_at AS "receivedAt",
  ${isOpen} AS "isOpen"`;

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
  const { rows } = await db.query<QuarantineRow>(
    `SELECT ${quarantineColumns} FROM billing.usage_quarantine AS q
     WHERE ($1::bigint IS NULL OR quarantine_id < $1) ${onlyOpen ? `AND ${isOpen}` : ""}
     ORDER BY quarantine_id DESC LIMIT $2`,
    [before, limit],
  );
  return rows;
}

const maxCounted = 1_000;

/** How many entries are open, counted up to 1,000, and for how many seconds the oldest of them is there. */
export async function sumUpQuarantine(db: Queryable): Promise<{ open: number; oldestSeconds: number }> {
  const { rows } = await db.query<{ open: number; oldestSeconds: number }>(
    `SELECT count(*)::int AS open,
       coalesce(extract(epoch FROM now() - min(received_at)), 0)::float8 AS "oldestSeconds"
     FROM (SELECT received_at FROM billing.usage_quarantine AS q WHERE ${isOpen} ORDER BY quarantine_id LIMIT $1) AS o`,
    [maxCounted],
  );
  return rows[0] ?? { open: 0, oldestSeconds: 0 };
}

/** An entry by its number; undefined when there is none. */
export async function readQuarantined(db: Queryable, quarantineId: bigint): Promise<QuarantineRow | undefined> {
  const { rows } = await db.query<QuarantineRow>(
    `SELECT ${quarantineColumns} FROM billing.usage_quarantine AS q WHERE quarantine_id = $1`,
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
