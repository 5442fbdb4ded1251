import type { Queryable } from "#shared/stores/postgres.ts";
import type { MemberRole } from "../permissions.ts";

export type Member = { personId: string; email: string; role: MemberRole; createdAt: Date };

/** The role of a person in an account. */
export async function findRole(db: Queryable, personId: string, accountId: string): Promise<MemberRole | undefined> {
  const { rows } = await db.query<{ role: MemberRole }>(
    `SELECT role FROM console.membership WHERE person_id = $1 AND account_id = $2`,
    [personId, accountId],
  );
  return rows[0]?.role;
}

/** The accounts of a person in the order of their ids, after one. */
export async function listMemberships(
  db: Queryable,
  personId: string,
  { afterId, limit }: { afterId: string; limit: number },
): Promise<{ accountId: string; role: MemberRole }[]> {
  const { rows } = await db.query<{ accountId: string; role: MemberRole }>(
    `SELECT account_id AS "accountId", role FROM console.membership
     WHERE person_id = $1 AND account_id > $2 ORDER BY account_id LIMIT $3`,
    [personId, afterId, limit],
  );
  return rows;
}

/** The members of an account in the order of their addresses, after one. */
export async function listMembers(
  db: Queryable,
  accountId: string,
  { afterEmail, limit }: { afterEmail: string; limit: number },
): Promise<Member[]> {
  const { rows } = await db.query<Member>(
    `SELECT m.person_id AS "personId", p.email, m.role, m.created_at AS "createdAt"
     FROM console.membership AS m JOIN console.person AS p USING (person_id)
     WHERE m.account_id = $1 AND lower(p.email) > lower($2) ORDER BY lower(p.email) LIMIT $3`,
    [accountId, afterEmail, limit],
  );
  return rows;
}

/** A member as it stands in a transaction that has locked the account's members. */
export type LockedMember = Member & {
  /** Nobody else is an owner. */
  isLastOwner: boolean;
};

/**
 * Locks the owners of an account and one member of it until the end of the transaction: two owners who remove each
 * other at once would otherwise leave none.
 */
export async function lockMember(
  db: Queryable,
  accountId: string,
  personId: string,
): Promise<LockedMember | undefined> {
  const { rows } = await db.query<Member>(
    `SELECT m.person_id AS "personId", p.email, m.role, m.created_at AS "createdAt"
     FROM console.membership AS m JOIN console.person AS p USING (person_id)
     WHERE m.account_id = $1 AND (m.role = 'owner' OR m.person_id = $2) ORDER BY m.person_id FOR UPDATE OF m`,
    [accountId, personId],
  );
  const member = rows.find((row) => row.personId === personId);
  if (!member) return undefined;
  const hasOtherOwner = rows.some((row) => row.role === "owner" && row.personId !== personId);
  return { ...member, isLastOwner: member.role === "owner" && !hasOtherOwner };
}

/** How many became members of an account in the last day. */
export async function countMembersOfDay(db: Queryable, accountId: string): Promise<number> {
  const { rows } = await db.query<{ joined: number }>(
    `SELECT count(*)::int AS joined FROM console.membership
     WHERE account_id = $1 AND created_at > now() - interval '1 day'`,
    [accountId],
  );
  return rows[0]?.joined ?? 0;
}

/** Makes a person a member; one who is a member already keeps the role, and the answer is false. */
export async function insertMembership(
  db: Queryable,
  membership: { personId: string; accountId: string; role: MemberRole },
): Promise<boolean> {
  const { rowCount } = await db.query(
    "INSERT INTO console.membership (person_id, account_id, role) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    [membership.personId, membership.accountId, membership.role],
  );
  return rowCount === 1;
}

export async function setRole(
  db: Queryable,
  { personId, accountId, role }: { personId: string; accountId: string; role: MemberRole },
): Promise<void> {
  await db.query("UPDATE console.membership SET role = $3 WHERE person_id = $1 AND account_id = $2", [
    personId,
    accountId,
    role,
  ]);
}

export async function deleteMembership(db: Queryable, personId: string, accountId: string): Promise<void> {
  await db.query("DELETE FROM console.membership WHERE person_id = $1 AND account_id = $2", [personId, accountId]);
}
