import type { Queryable } from "#shared/stores/postgres.ts";

/** Keeps a sealed secret that is being set up; it counts for nothing until it is confirmed. */
export async function setPendingSecret(db: Queryable, personId: string, sealed: Buffer): Promise<void> {
  await db.query("UPDATE console.person SET totp_pending = $2 WHERE person_id = $1", [personId, sealed]);
}

/** Makes the pending secret the one that is asked for. `step` is that of the code with which it was confirmed. */
export async function confirmSecret(db: Queryable, personId: string, step: number): Promise<void> {
  await db.query(
    `UPDATE console.person SET totp_secret = totp_pending, totp_pending = NULL, totp_last_step = $2
     WHERE person_id = $1`,
    [personId, step],
  );
}

export async function removeSecret(db: Queryable, personId: string): Promise<void> {
  await db.query("UPDATE console.person SET totp_secret = NULL, totp_pending = NULL WHERE person_id = $1", [personId]);
  await db.query("DELETE FROM console.recovery_code WHERE person_id = $1", [personId]);
}

/** Takes the code of a step; false when this or a later one was taken before. Of several at once one gets true. */
export async function takeStep(db: Queryable, personId: string, step: number): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE console.person SET totp_last_step = $2 WHERE person_id = $1 AND totp_last_step < $2",
    [personId, step],
  );
  return rowCount === 1;
}

/** Takes a recovery code; false when there is no such code left. Of several at once one gets true. */
export async function takeRecoveryCode(db: Queryable, personId: string, codeHash: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE console.recovery_code SET used_at = now() WHERE person_id = $1 AND code_hash = $2 AND used_at IS NULL",
    [personId, codeHash],
  );
  return rowCount === 1;
}

/** Puts new recovery codes in place of all that there were. */
export async function replaceRecoveryCodes(db: Queryable, personId: string, codeHashes: Buffer[]): Promise<void> {
  await db.query("DELETE FROM console.recovery_code WHERE person_id = $1", [personId]);
  await db.query("INSERT INTO console.recovery_code (person_id, code_hash) SELECT $1, unnest($2::bytea[])", [
    personId,
    codeHashes,
  ]);
}

export async function countRecoveryCodes(db: Queryable, personId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    "SELECT count(*)::int AS count FROM console.recovery_code WHERE person_id = $1 AND used_at IS NULL",
    [personId],
  );
  return rows[0]?.count ?? 0;
}
