import { randomUUID } from "node:crypto";
import type { Queryable } from "#shared/stores/postgres.ts";

/** Somebody who may sign in. */
export type Person = {
  personId: string;
  email: string;
  passwordHash: string;
  /** False: the hash is of random bytes, and the person comes by an issuer alone. */
  hasPassword: boolean;
  /** Sealed; null: no second factor is set. */
  totpSecret: Buffer | null;
  /** Sealed; a second factor that is being set up. */
  totpPending: Buffer | null;
  isOperator: boolean;
  status: "active" | "stopped";
  isLocked: boolean;
  createdAt: Date;
};

/** Failures in a row after which each further one locks. */
export const failuresBeforeLock = 10;
const lockMinutes = 15;

export const personColumns = `p.person_id AS "personId", p.email, p.password_hash AS "passwordHash",
  p.has_password AS "hasPassword", p.totp_secret AS "totpSecret", p.totp_pending AS "totpPending",
  p.is_operator AS "isOperator", p.status,
  coalesce(p.locked_until > now(), false) AS "isLocked", p.created_at AS "createdAt"`;

/** Whether one of these addresses, in any case, is somebody's to sign in with. */
export async function hasPersonOf(db: Queryable, emails: string[]): Promise<boolean> {
  const { rows } = await db.query(
    "SELECT FROM console.person WHERE lower(email) IN (SELECT lower(one) FROM unnest($1::text[]) AS one) LIMIT 1",
    [emails],
  );
  return rows.length > 0;
}

/** The person with this address to sign in, in any case. */
export async function findPersonByEmail(db: Queryable, email: string): Promise<Person | undefined> {
  const statement = `SELECT ${personColumns} FROM console.person AS p WHERE lower(p.email) = lower($1)`;
  return (await db.query<Person>(statement, [email])).rows[0];
}

/**
 * The person, locked until the end of the transaction when `db` is one. Rows that refer to the person can still be
 * added meanwhile.
 */
export async function lockPerson(db: Queryable, personId: string): Promise<Person | undefined> {
  const statement = `SELECT ${personColumns} FROM console.person AS p WHERE p.person_id = $1 FOR NO KEY UPDATE`;
  return (await db.query<Person>(statement, [personId])).rows[0];
}

/** Adds a person and tells the id; undefined when the address is taken, in any case. */
export async function insertPerson(
  db: Queryable,
  person: Pick<Person, "email" | "passwordHash" | "isOperator"> & Partial<Pick<Person, "hasPassword">>,
): Promise<string | undefined> {
  const personId = randomUUID();
  const { email, passwordHash, isOperator, hasPassword = true } = person;
  const { rowCount } = await db.query(
    `INSERT INTO console.person (person_id, email, password_hash, is_operator, has_password)
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
    [personId, email, passwordHash, isOperator, hasPassword],
  );
  return rowCount === 1 ? personId : undefined;
}

/**
 * Notes a failed sign-in; true when it has locked the person. One row is written whether or not somebody has the
 * address: the time that it takes would else tell. Nothing is counted while the person is locked, for others could
 * otherwise keep somebody out for ever.
 */
export async function countFailure(db: Queryable, email: string): Promise<boolean> {
  const { rows } = await db.query<{ isLocked: boolean }>(
    `WITH counted AS (
       UPDATE console.person SET failed_sign_ins = failed_sign_ins + 1, locked_until =
         CASE WHEN failed_sign_ins + 1 >= $2 THEN now() + make_interval(mins => $3) ELSE locked_until END
       WHERE lower(email) = lower($1) AND (locked_until IS NULL OR locked_until <= now())
       RETURNING coalesce(locked_until > now(), false) AS is_locked
     ), other AS (
       UPDATE console.decoy SET failures = failures + 1
       WHERE decoy_id = (hashtext(lower($1)) & 63) AND NOT EXISTS (SELECT FROM counted)
     )
     SELECT is_locked AS "isLocked" FROM counted`,
    [email, failuresBeforeLock, lockMinutes],
  );
  return rows[0]?.isLocked ?? false;
}

type PasswordOwner = Pick<Person, "personId" | "passwordHash">;

/**
 * Forgets failures after a whole sign-in; false when the person was locked or stopped meanwhile, or the password was
 * changed, which ends what was opened before it.
 */
export async function clearFailures(db: Queryable, { personId, passwordHash }: PasswordOwner): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE console.person SET failed_sign_ins = 0, locked_until = NULL
     WHERE person_id = $1 AND password_hash = $2 AND status = 'active'
       AND (locked_until IS NULL OR locked_until <= now())`,
    [personId, passwordHash],
  );
  return rowCount === 1;
}

export async function setPasswordHash(db: Queryable, personId: string, passwordHash: string): Promise<void> {
  await db.query("UPDATE console.person SET password_hash = $2, has_password = true WHERE person_id = $1", [
    personId,
    passwordHash,
  ]);
}

/** Puts another hash of the same password in its place; false when the password was changed meanwhile. */
export async function replacePasswordHash(
  db: Queryable,
  { personId, passwordHash }: PasswordOwner,
  to: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE console.person SET password_hash = $3 WHERE person_id = $1 AND password_hash = $2",
    [personId, passwordHash, to],
  );
  return rowCount === 1;
}

export async function setStatus(db: Queryable, personId: string, status: Person["status"]): Promise<void> {
  await db.query("UPDATE console.person SET status = $2 WHERE person_id = $1", [personId, status]);
}

export async function makeOperator(db: Queryable, personId: string): Promise<void> {
  await db.query("UPDATE console.person SET is_operator = true WHERE person_id = $1", [personId]);
}

/** What the list of people shows. */
export type PersonLine = Pick<Person, "personId" | "email" | "isOperator" | "status" | "isLocked"> & {
  hasSecondFactor: boolean;
  accounts: number;
};

/** People in the order of their addresses, after one. */
export async function listPeople(db: Queryable, afterEmail: string, limit: number): Promise<PersonLine[]> {
  const { rows } = await db.query<PersonLine>(
    `SELECT p.person_id AS "personId", p.email, p.is_operator AS "isOperator", p.status,
       coalesce(p.locked_until > now(), false) AS "isLocked", p.totp_secret IS NOT NULL AS "hasSecondFactor",
       (SELECT count(*)::int FROM console.membership AS m WHERE m.person_id = p.person_id) AS accounts
     FROM console.person AS p WHERE lower(p.email) > lower($1) ORDER BY lower(p.email) LIMIT $2`,
    [afterEmail, limit],
  );
  return rows;
}
