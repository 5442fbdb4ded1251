import type { Queryable } from "#shared/stores/postgres.ts";

/** A secret as it is kept: `id` is of the row's owner, which the seal is bound to. */
export type SealedSecret = { id: string; sealed: Buffer };

/** Where sealed secrets are kept for long, and by which column their rows are found. */
export const sealedColumns = {
  totpSecret: { table: "person", id: "person_id", column: "totp_secret" },
  totpPending: { table: "person", id: "person_id", column: "totp_pending" },
  webhookSecret: { table: "webhook", id: "webhook_id", column: "sealed_secret" },
  previousWebhookSecret: { table: "webhook", id: "webhook_id", column: "previous_secret" },
  playgroundKey: { table: "playground_key", id: "key_id", column: "sealed_secret" },
} as const;

export type SealedColumn = keyof typeof sealedColumns;

/** A page of a column's secrets, of ids behind `after`, in their order; undefined: the first page. */
export async function listSealed(
  db: Queryable,
  of: SealedColumn,
  { after, limit }: { after: string | undefined; limit: number },
): Promise<SealedSecret[]> {
  const { table, id, column } = sealedColumns[of];
  const { rows } = await db.query<SealedSecret>(
    `SELECT ${id}::text AS id, ${column} AS sealed FROM console.${table}
     WHERE ${column} IS NOT NULL AND (${id} > $1 OR $1 IS NULL) ORDER BY ${id} LIMIT $2`,
    [after ?? null, limit],
  );
  return rows;
}

/** Puts a secret in the place of the one that was read; false when there is another by now. */
export async function replaceSealed(
  db: Queryable,
  of: SealedColumn,
  { id: rowId, sealed, resealed }: SealedSecret & { resealed: Buffer },
): Promise<boolean> {
  const { table, id, column } = sealedColumns[of];
  const { rowCount } = await db.query(
    `UPDATE console.${table} SET ${column} = $3 WHERE ${id} = $1 AND ${column} = $2`,
    [rowId, sealed, resealed],
  );
  return (rowCount ?? 0) > 0;
}
