import type { Queryable } from "#shared/stores/postgres.ts";
import { textArray } from "./arrays.ts";
import { type LineRow, lineColumns } from "./lines.ts";

/** A line by hand that is not on the stream yet, with the hash of what was asked for. */
export type UnpublishedLine = LineRow & { contentHash: Buffer };

/** Notes that a line must go to the stream, in the transaction that books it. */
export async function addToOutbox(
  db: Queryable,
  { accountId, lineId, day }: { accountId: string; lineId: string; day: string },
): Promise<void> {
  await db.query("INSERT INTO billing.funds_outbox (account_id, line_id, day) VALUES ($1, $2, $3)", [
    accountId,
    lineId,
    day,
  ]);
}

/** The oldest lines by hand that are not on the stream yet. */
export async function readUnpublished(db: Queryable, limit: number): Promise<UnpublishedLine[]> {
  const { rows } = await db.query<UnpublishedLine>(
    `SELECT ${lineColumns}, payload_hash AS "contentHash"
     FROM (SELECT * FROM billing.funds_outbox ORDER BY line_id LIMIT $1) AS o
     JOIN billing.ledger_line AS l USING (account_id, line_id, day) ORDER BY line_id`,
    [limit],
  );
  return rows;
}

/** Forgets lines that the stream holds. */
export async function removeFromOutbox(db: Queryable, lineIds: readonly string[]): Promise<void> {
  await db.query("DELETE FROM billing.funds_outbox WHERE line_id = ANY ($1::text[]::uuid[])", [
    textArray([...lineIds]),
  ]);
}
