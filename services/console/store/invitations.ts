import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";
import type { Role } from "../permissions.ts";

/** Days for which an invitation can be accepted. */
export const invitationDays = 7;

export type Invitation = {
  invitationId: string;
  email: string;
  /** null: for an operator. */
  accountId: string | null;
  role: Role;
  expiresAt: Date;
};

const columns = `invitation_id AS "invitationId", email, account_id AS "accountId", role,
  expires_at AS "expiresAt"`;
const open = "accepted_at IS NULL AND withdrawn_at IS NULL AND expires_at > now()";

/** Adds an invitation and tells its id. */
export async function insertInvitation(
  db: Queryable,
  invitation: Pick<Invitation, "email" | "accountId" | "role"> & { tokenHash: Buffer; invitedBy: string },
): Promise<string> {
  const invitationId = randomUUID();
  const { tokenHash, email, accountId, role, invitedBy } = invitation;
  await db.query(
    `INSERT INTO console.invitation (invitation_id, token_hash, email, account_id, role, invited_by, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(days => ${invitationDays}))`,
    [invitationId, tokenHash, email, accountId, role, invitedBy],
  );
  return invitationId;
}

/** The open invitation of a token. */
export async function findInvitation(db: Queryable, tokenHash: Buffer): Promise<Invitation | undefined> {
  const statement = `SELECT ${columns} FROM console.invitation WHERE token_hash = $1 AND ${open}`;
  return (await db.query<Invitation>(statement, [tokenHash])).rows[0];
}

/** The same by its id, for a browser that has shown the token before. */
export async function findInvitationOf(db: Queryable, invitationId: string): Promise<Invitation | undefined> {
  const statement = `SELECT ${columns} FROM console.invitation WHERE invitation_id = $1 AND ${open}`;
  return (await db.query<Invitation>(statement, [invitationId])).rows[0];
}

/** Takes the open invitation of a token: of several at once one gets it, the others nothing. */
export async function takeInvitation(db: Queryable, tokenHash: Buffer): Promise<Invitation | undefined> {
  const statement = `UPDATE console.invitation SET accepted_at = now() WHERE token_hash = $1 AND ${open}
    RETURNING ${columns}`;
  return (await db.query<Invitation>(statement, [tokenHash])).rows[0];
}

/** The same by its id. */
export async function takeInvitationOf(db: Queryable, invitationId: string): Promise<Invitation | undefined> {
  const statement = `UPDATE console.invitation SET accepted_at = now() WHERE invitation_id = $1 AND ${open}
    RETURNING ${columns}`;
  return (await db.query<Invitation>(statement, [invitationId])).rows[0];
}

/** Whether an account has an open invitation for one of these addresses. */
export async function hasInvitationFor(db: Queryable, accountId: string, emails: string[]): Promise<boolean> {
  const { rows } = await db.query(
    `SELECT FROM console.invitation WHERE account_id = $1 AND email = ANY ($2) AND ${open} LIMIT 1`,
    [accountId, emails],
  );
  return rows.length > 0;
}

/** The open invitations of an account, or of operators, newest first. */
export async function listInvitations(db: Queryable, accountId: string | null, limit: number): Promise<Invitation[]> {
  const { rows } = await db.query<Invitation>(
    `SELECT ${columns} FROM console.invitation WHERE account_id IS NOT DISTINCT FROM $1 AND ${open}
     ORDER BY created_at DESC LIMIT $2`,
    [accountId, limit],
  );
  return rows;
}

/** How many were made for an account, or for operators, in the last day, whatever became of them. */
export async function countInvitationsOfDay(db: Queryable, accountId: string | null): Promise<number> {
  const { rows } = await db.query<{ made: number }>(
    `SELECT count(*)::int AS made FROM console.invitation
     WHERE account_id IS NOT DISTINCT FROM $1 AND created_at > now() - interval '1 day'`,
    [accountId],
  );
  return rows[0]?.made ?? 0;
}

/** Takes an open invitation of this account back, or of operators; undefined when there is none with this id. */
export async function withdrawInvitation(
  db: Queryable,
  accountId: string | null,
  invitationId: string,
): Promise<Invitation | undefined> {
  const { rows } = await db.query<Invitation>(
    `UPDATE console.invitation SET withdrawn_at = now()
     WHERE invitation_id = $2 AND account_id IS NOT DISTINCT FROM $1 AND ${open} RETURNING ${columns}`,
    [accountId, invitationId],
  );
  return rows[0];
}

/** Forgets at most `limit` invitations and as many links for passwords that ended 400 days ago; tells how many. */
export async function forgetLinks(db: Queryable, limit: number): Promise<bigint> {
  const { rows } = await db.query<{ forgotten: bigint }>("SELECT console.forget_links($1) AS forgotten", [limit]);
  return rows[0]?.forgotten ?? 0n;
}
