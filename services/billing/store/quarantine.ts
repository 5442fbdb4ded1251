import type { Reject } from "../read.ts";
import { bytesArray, hexArray, numberArray, textArray } from "./arrays.ts";
import type { Queryable } from "#shared/postgres.ts";

export type QuarantineRow = { quarantineId: bigint; reason: string; payload: Buffer; receivedAt: Date };

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

/** The newest entries first. */
export async function readQuarantine(db: Queryable, limit: number): Promise<QuarantineRow[]> {
  const { rows } = await db.query<QuarantineRow>(
    `SELECT quarantine_id AS "quarantineId", reason, payload, received_at AS "receivedAt"
     FROM billing.usage_quarantine ORDER BY quarantine_id DESC LIMIT $1`,
    [limit],
  );
  return rows;
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
