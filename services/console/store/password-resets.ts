import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";

/** Hours for which a link can be used. */
export const resetHours = 24;
/** Days for which the person is told of a reset at every sign-in. */
const toldDays = 30;

export type PasswordReset = { personId: string; email: string; madeBy: string };

// A link is worth no more than its operator: it ends with whoever made it, and with whom it is for.
const open = `r.used_at IS NULL AND r.ended_at IS NULL AND r.expires_at > now()
  AND p.person_id = r.person_id AND p.status = 'active'
  AND o.person_id = r.made_by AND o.status = 'active' AND o.is_operator`;
const columns = `r.person_id AS "personId", p.email, o.email AS "madeBy"`;

/** Makes a link for a person; any earlier one ends. */
export async function insertReset(
  db: Queryable,
  { tokenHash, personId, madeBy }: { tokenHash: Buffer; personId: string; madeBy: string },
): Promise<void> {
  await endResets(db, personId);
  await db.query(
    `INSERT INTO console.password_reset (reset_id, token_hash, person_id, made_by, expires_at)
     VALUES ($1, $2, $3, $4, now() + make_interval(hours => ${resetHours}))`,
    [randomUUID(), tokenHash, personId, madeBy],
  );
}

/** Ends every link of a person that was not used. */
export async function endResets(db: Queryable, personId: string): Promise<void> {
  await db.query(
    `UPDATE console.password_reset SET ended_at = now()
     WHERE person_id = $1 AND used_at IS NULL AND ended_at IS NULL`,
    [personId],
  );
}

/** The open link of a token: for whom, and who made it. */
export async function findReset(db: Queryable, tokenHash: Buffer): Promise<PasswordReset | undefined> {
  const statement = `SELECT ${columns} FROM console.password_reset AS r, console.person AS p, console.person AS o
    WHERE r.token_hash = $1 AND ${open}`;
  return (await db.query<PasswordReset>(statement, [tokenHash])).rows[0];
}

/** Takes the open link of a token: of several at once one gets it, the others nothing. */
export async function takeReset(db: Queryable, tokenHash: Buffer): Promise<PasswordReset | undefined> {
  const statement = `UPDATE console.password_reset AS r SET used_at = now()
    FROM console.person AS p, console.person AS o WHERE r.token_hash = $1 AND ${open} RETURNING ${columns}`;
  return (await db.query<PasswordReset>(statement, [tokenHash])).rows[0];
}

/** The last time that a link was used for a person. */
export type LastReset = { usedAt: Date; madeBy: string; isRecent: boolean };

export async function findLastReset(db: Queryable, personId: string): Promise<LastReset | undefined> {
  const { rows } = await db.query<LastReset>(
    `SELECT r.used_at AS "usedAt", o.email AS "madeBy",
       r.used_at > now() - make_interval(days => ${toldDays}) AS "isRecent"
     FROM console.password_reset AS r JOIN console.person AS o ON o.person_id = r.made_by
     WHERE r.person_id = $1 AND r.used_at IS NOT NULL ORDER BY r.used_at DESC LIMIT 1`,
    [personId],
  );
  return rows[0];
}
