import type { Queryable } from "#shared/stores/postgres.ts";

/** Hours for which a bootstrap token can be used. */
export const bootstrapHours = 24;

/**
 * Keeps a bootstrap token when nobody is an operator and no token is waiting; false otherwise. Of several replicas that
 * start at once one gets true. A token that was not used in time makes room for another.
 */
export async function keepBootstrapToken(db: Queryable, tokenHash: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(
    `INSERT INTO console.bootstrap_token AS b (token_hash, expires_at)
     SELECT $1, now() + make_interval(hours => ${bootstrapHours})
     WHERE NOT EXISTS (SELECT FROM console.person WHERE is_operator)
     ON CONFLICT (is_only) DO UPDATE
       SET token_hash = excluded.token_hash, created_at = now(), expires_at = excluded.expires_at
       WHERE b.used_at IS NULL AND b.expires_at <= now()`,
    [tokenHash],
  );
  return rowCount === 1;
}

/** Takes the token under a lock of its row: of several at once one gets true. */
export async function takeBootstrapToken(db: Queryable, tokenHash: Buffer): Promise<boolean> {
  const { rows } = await db.query<{ isRight: boolean }>(
    `SELECT token_hash = $1 AS "isRight" FROM console.bootstrap_token
     WHERE used_at IS NULL AND expires_at > now() FOR UPDATE`,
    [tokenHash],
  );
  if (rows[0]?.isRight !== true) return false;
  await db.query("UPDATE console.bootstrap_token SET used_at = now()");
  return true;
}

/** Whether a token waits to be used. */
export async function isBootstrapOpen(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query(
    "SELECT FROM console.bootstrap_token WHERE used_at IS NULL AND expires_at > now()",
  );
  return rowCount === 1;
}
