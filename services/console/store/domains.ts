import pg from "pg";
import type { Queryable } from "#shared/stores/postgres.ts";
import type { DomainRole } from "../permissions.ts";

/** Days after which a record that is not found any more ends the rule. */
export const graceDays = 3;
/** Seconds between two looks that people ask for. */
export const lookSeconds = 10;

/** A domain that an account has claimed. */
export type Domain = {
  accountId: string;
  domain: string;
  token: string;
  role: DomainRole;
  /** An owner; the rule counts only while the person is one. */
  claimedBy: string;
  isClaimedByOwner: boolean;
  /** Not found for two days or more. */
  isMissing: boolean;
  foundAt: Date | null;
  verifiedAt: Date | null;
};

const isOwner = `EXISTS (SELECT FROM console.membership AS m JOIN console.person AS p USING (person_id)
  WHERE m.person_id = d.claimed_by AND m.account_id = d.account_id AND m.role = 'owner' AND p.status = 'active')`;
const columns = `d.account_id AS "accountId", d.domain, d.token, d.role, d.claimed_by AS "claimedBy",
  ${isOwner} AS "isClaimedByOwner", d.found_at AS "foundAt",
  coalesce(d.found_at <= now() - interval '2 days', false) AS "isMissing", d.verified_at AS "verifiedAt"`;
const grace = `now() - make_interval(days => ${graceDays})`;

/** Adds a claim; false when the account has claimed this domain before. */
export async function insertDomain(
  db: Queryable,
  { accountId, domain, token, role, claimedBy }: Pick<Domain, "accountId" | "domain" | "token" | "role" | "claimedBy">,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `INSERT INTO console.domain (account_id, domain, token, role, claimed_by) VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT DO NOTHING`,
    [accountId, domain, token, role, claimedBy],
  );
  return rowCount === 1;
}

/** The domains that an account has claimed, in their order. */
export async function listDomains(db: Queryable, accountId: string): Promise<Domain[]> {
  const statement = `SELECT ${columns} FROM console.domain AS d WHERE d.account_id = $1 ORDER BY d.domain`;
  return (await db.query<Domain>(statement, [accountId])).rows;
}

/** Takes the turn to look for a domain's record; undefined: there is no such claim; "soon": somebody just has. */
export async function takeLook(db: Queryable, accountId: string, domain: string): Promise<Domain | "soon" | undefined> {
  const { rows } = await db.query<Domain>(
    `UPDATE console.domain AS d SET checked_at = now()
     WHERE d.account_id = $1 AND d.domain = $2 AND d.checked_at <= now() - make_interval(secs => ${lookSeconds})
     RETURNING ${columns}`,
    [accountId, domain],
  );
  if (rows[0]) return rows[0];
  const claims = await listDomains(db, accountId);
  return claims.some((claim) => claim.domain === domain) ? "soon" : undefined;
}

/**
 * The record was found, by this owner, or by the daily look when it is undefined. False when the claim is gone. Fails
 * with a unique violation when another account has the domain.
 */
export async function markFound(
  db: Queryable,
  { accountId, domain, token }: Pick<Domain, "accountId" | "domain" | "token">,
  claimedBy?: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE console.domain SET found_at = now(), claimed_by = coalesce($4::uuid, claimed_by),
       verified_at = CASE WHEN $4::uuid IS NULL THEN verified_at ELSE coalesce(verified_at, now()) END
     WHERE account_id = $1 AND domain = $2 AND token = $3`,
    [accountId, domain, token, claimedBy ?? null],
  );
  return rowCount === 1;
}

/** Sets the role of who comes by it; tells the claim as it was before. */
export async function setDomainRole(
  db: Queryable,
  { accountId, domain, role }: Pick<Domain, "accountId" | "domain" | "role">,
): Promise<DomainRole | undefined> {
  const { rows } = await db.query<{ role: DomainRole }>(
    `WITH before AS (SELECT role FROM console.domain WHERE account_id = $1 AND domain = $2 FOR UPDATE)
     UPDATE console.domain AS d SET role = $3 FROM before
     WHERE d.account_id = $1 AND d.domain = $2 RETURNING before.role`,
    [accountId, domain, role],
  );
  return rows[0]?.role;
}

/** Ends a claim and its rule; false when there is none. */
export async function deleteDomain(db: Queryable, accountId: string, domain: string): Promise<boolean> {
  const { rowCount } = await db.query("DELETE FROM console.domain WHERE account_id = $1 AND domain = $2", [
    accountId,
    domain,
  ]);
  return rowCount === 1;
}

/** Domains in force whose records were last found a day ago or more, each looked for once an hour by one replica. */
export async function takeDueDomains(db: Queryable, limit: number): Promise<Domain[]> {
  const { rows } = await db.query<Domain>(
    `UPDATE console.domain AS d SET checked_at = now()
     WHERE (d.account_id, d.domain) IN (
       SELECT account_id, domain FROM console.domain
       WHERE verified_at IS NOT NULL AND found_at <= now() - interval '1 day'
         AND checked_at <= now() - interval '1 hour'
       ORDER BY found_at LIMIT $1 FOR UPDATE SKIP LOCKED)
     RETURNING ${columns}`,
    [limit],
  );
  return rows;
}

/** Ends the rule of a domain that was not found for days; whether it was this call that did. */
export async function lapseDomain(db: Queryable, { accountId, domain }: Pick<Domain, "accountId" | "domain">) {
  const { rowCount } = await db.query(
    `UPDATE console.domain SET verified_at = NULL
     WHERE account_id = $1 AND domain = $2 AND verified_at IS NOT NULL AND found_at <= ${grace}`,
    [accountId, domain],
  );
  return rowCount === 1;
}

/** The rule in force for a domain, which nobody changes until the transaction ends. */
export async function lockRule(db: Queryable, domain: string): Promise<Domain | undefined> {
  const { rows } = await db.query<Domain>(
    `SELECT ${columns} FROM console.domain AS d
     WHERE d.domain = $1 AND d.verified_at IS NOT NULL AND d.found_at > ${grace} AND ${isOwner} FOR SHARE OF d`,
    [domain],
  );
  return rows[0];
}

/** Whether a statement has failed because another account has the domain. */
export const isTaken = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === "23505" && error.constraint === "domain_verified";
