import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";
import { personColumns, type Person } from "./people.ts";
import { lockCount } from "./lock-count.ts";

/** Hours after the sign-in at which a session ends, whatever happens. */
const sessionHours = 12;
/** Minutes without a request after which it ends. */
const idleMinutes = 60;
/** Minutes for giving the second factor. */
const halfMinutes = 5;
const maxPerPerson = 50;

export type Session = {
  sessionId: string;
  isComplete: boolean;
  mustRotate: boolean;
  flash: string | null;
  /** Where the person proved who it is; null: with the password. */
  issuer: string | null;
};

export type SessionLine = {
  sessionId: string;
  address: string;
  browser: string;
  createdAt: Date;
  lastSeenAt: Date;
};

const alive = `s.last_seen_at > now() - make_interval(mins => ${idleMinutes})
  AND s.created_at > now() - CASE WHEN s.is_complete THEN make_interval(hours => ${sessionHours})
    ELSE make_interval(mins => ${halfMinutes}) END`;

const columns = `s.session_id AS "sessionId", s.is_complete AS "isComplete", s.must_rotate AS "mustRotate",
  s.flash, s.issuer`;

/**
 * The live session of a token with its person, who must be active. Its last use is noted once a minute; `isUse` says
 * whether this is one.
 */
export async function findSession(
  db: Queryable,
  tokenHash: Buffer,
  isUse: boolean,
): Promise<{ session: Session; person: Person } | undefined> {
  const { rows } = await db.query<Session & Person & { isStale: boolean }>(
    `SELECT ${columns}, ${personColumns}, s.last_seen_at < now() - interval '1 minute' AS "isStale"
     FROM console.session AS s JOIN console.person AS p USING (person_id)
     WHERE s.token_hash = $1 AND p.status = 'active' AND ${alive}`,
    [tokenHash],
  );
  const [row] = rows;
  if (!row) return undefined;
  const { sessionId, isComplete, mustRotate, flash, issuer, isStale, ...person } = row;
  if (isStale && isUse)
    await db.query("UPDATE console.session SET last_seen_at = now() WHERE session_id = $1", [sessionId]);
  return { session: { sessionId, isComplete, mustRotate, flash, issuer }, person };
}

export type NewSession = {
  tokenHash: Buffer;
  personId: string;
  isComplete: boolean;
  address: string;
  browser: string;
  flash?: string | undefined;
  issuer?: string | null | undefined;
};

/**
 * Opens a session and tells its id; of a person with too many, the oldest end. Half ones count apart: whoever knows the
 * password alone must not end whole ones.
 */
export async function insertSession(db: Queryable, opened: NewSession): Promise<string> {
  const sessionId = randomUUID();
  const { tokenHash, personId, isComplete, address, browser, flash, issuer } = opened;
  await lockCount(db, "session", personId);
  await db.query(
    `INSERT INTO console.session (session_id, token_hash, person_id, is_complete, address, browser, flash, issuer)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [sessionId, tokenHash, personId, isComplete, address, browser, flash ?? null, issuer ?? null],
  );
  await db.query(
    `DELETE FROM console.session WHERE person_id = $1 AND is_complete = $3 AND session_id NOT IN (
       SELECT session_id FROM console.session WHERE person_id = $1 AND is_complete = $3
       ORDER BY created_at DESC LIMIT $2)`,
    [personId, maxPerPerson, isComplete],
  );
  return sessionId;
}

/** Gives a session another token; false when it has another one already, so that of two at once one wins. */
export async function rotateSession(db: Queryable, sessionId: string, from: Buffer, to: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE console.session SET token_hash = $3, must_rotate = false WHERE session_id = $1 AND token_hash = $2",
    [sessionId, from, to],
  );
  return rowCount === 1;
}

/** Has the sessions of a person get new tokens at their next requests. */
export async function markForRotation(db: Queryable, personId: string): Promise<void> {
  await db.query("UPDATE console.session SET must_rotate = true WHERE person_id = $1", [personId]);
}

export async function setFlash(db: Queryable, sessionId: string, flash: string | null): Promise<void> {
  await db.query("UPDATE console.session SET flash = $2 WHERE session_id = $1", [sessionId, flash]);
}

/** The live whole sessions of a person, newest first. */
export async function listSessions(db: Queryable, personId: string): Promise<SessionLine[]> {
  const { rows } = await db.query<SessionLine>(
    `SELECT s.session_id AS "sessionId", s.address, s.browser, s.created_at AS "createdAt",
       s.last_seen_at AS "lastSeenAt"
     FROM console.session AS s WHERE s.person_id = $1 AND s.is_complete AND ${alive} ORDER BY s.created_at DESC`,
    [personId],
  );
  return rows;
}

/** Ends a session of this person; false when there is none with this id. */
export async function deleteSession(db: Queryable, personId: string, sessionId: string): Promise<boolean> {
  const { rowCount } = await db.query("DELETE FROM console.session WHERE session_id = $2 AND person_id = $1", [
    personId,
    sessionId,
  ]);
  return rowCount === 1;
}

/** Ends all sessions of a person, but one when `exceptId` names it; tells how many. */
export async function deleteOtherSessions(db: Queryable, personId: string, exceptId?: string): Promise<number> {
  const { rowCount } = await db.query(
    "DELETE FROM console.session WHERE person_id = $1 AND session_id IS DISTINCT FROM $2::uuid",
    [personId, exceptId ?? null],
  );
  return rowCount ?? 0;
}

/** Deletes at most `limit` sessions that nobody can use any more; tells how many. */
export async function deleteEndedSessions(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `DELETE FROM console.session WHERE session_id IN (
       SELECT s.session_id FROM console.session AS s WHERE NOT (${alive}) LIMIT $1)`,
    [limit],
  );
  return rowCount ?? 0;
}
