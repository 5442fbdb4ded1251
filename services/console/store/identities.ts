import type { Queryable } from "#shared/stores/postgres.ts";
import { personColumns, type Person } from "./people.ts";

/** Somebody as an issuer knows them: the pair is what is theirs for ever, not an address. */
export type Identity = { issuer: string; subject: string };

/** Minutes in which a browser must be back from the issuer. */
export const attemptMinutes = 10;

/** What is kept while a browser is away at the issuer. */
export type Attempt = {
  /** The session that has begun it and ends it; null: nobody was signed in. */
  sessionId: string | null;
  /** What it is for, nonce and code verifier, sealed. */
  sealed: Buffer;
};

type AttemptKey = { stateHash: Buffer; browserHash: Buffer };

export async function insertAttempt(db: Queryable, attempt: Attempt & AttemptKey): Promise<void> {
  const { stateHash, browserHash, sessionId, sealed } = attempt;
  await db.query(
    `INSERT INTO console.oidc_attempt (state_hash, browser_hash, session_id, sealed, next, expires_at)
     VALUES ($1, $2, $3, $4, '', now() + make_interval(mins => ${attemptMinutes}))`,
    [stateHash, browserHash, sessionId, sealed],
  );
}

/** Takes the attempt that this very browser has begun: of several at once one gets it, the others nothing. */
export async function takeAttempt(db: Queryable, { stateHash, browserHash }: AttemptKey): Promise<Attempt | undefined> {
  const { rows } = await db.query<Attempt>(
    `DELETE FROM console.oidc_attempt WHERE state_hash = $1 AND browser_hash = $2 AND expires_at > now()
     RETURNING session_id AS "sessionId", sealed`,
    [stateHash, browserHash],
  );
  return rows[0];
}

/** Deletes at most `limit` attempts that came to nothing; tells how many. */
export async function deleteEndedAttempts(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `DELETE FROM console.oidc_attempt WHERE state_hash IN (
       SELECT state_hash FROM console.oidc_attempt WHERE expires_at <= now() LIMIT $1)`,
    [limit],
  );
  return rowCount ?? 0;
}

/** The person to whom an identity is linked. */
export async function findPersonByIdentity(db: Queryable, { issuer, subject }: Identity): Promise<Person | undefined> {
  const { rows } = await db.query<Person>(
    `SELECT ${personColumns} FROM console.identity AS i JOIN console.person AS p USING (person_id)
     WHERE i.issuer = $1 AND i.subject = $2`,
    [issuer, subject],
  );
  return rows[0];
}

/** Links an identity; false when it is linked already, or the person to another one of this issuer. */
export async function insertIdentity(
  db: Queryable,
  { issuer, subject, personId }: Identity & { personId: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    "INSERT INTO console.identity (issuer, subject, person_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    [issuer, subject, personId],
  );
  return rowCount === 1;
}

/** The identities of a person: one per issuer at most. */
export async function listIdentities(db: Queryable, personId: string): Promise<(Identity & { linkedAt: Date })[]> {
  const { rows } = await db.query<Identity & { linkedAt: Date }>(
    `SELECT issuer, subject, linked_at AS "linkedAt" FROM console.identity WHERE person_id = $1 ORDER BY issuer`,
    [personId],
  );
  return rows;
}

/** Ends the link to an issuer; undefined when there is none. */
export async function deleteIdentity(db: Queryable, personId: string, issuer: string): Promise<Identity | undefined> {
  const { rows } = await db.query<Identity>(
    "DELETE FROM console.identity WHERE person_id = $1 AND issuer = $2 RETURNING issuer, subject",
    [personId, issuer],
  );
  return rows[0];
}

/** Ends all links of a person; tells how many. */
export async function deleteIdentities(db: Queryable, personId: string): Promise<number> {
  const { rowCount } = await db.query("DELETE FROM console.identity WHERE person_id = $1", [personId]);
  return rowCount ?? 0;
}
