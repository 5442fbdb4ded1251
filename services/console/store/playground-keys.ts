import type { Queryable } from "#shared/stores/postgres.ts";
import type { Role } from "../permissions.ts";

/** The key with which the playground asks for a person in an account. */
export type PlaygroundKey = {
  accountId: string;
  personId: string;
  keyId: string;
  sealedSecret: Buffer;
  expiresAt: Date;
};

const columns = `account_id AS "accountId", person_id AS "personId", key_id AS "keyId",
  sealed_secret AS "sealedSecret", expires_at AS "expiresAt"`;

/** Lets one transaction at a time make the key of a membership; false when there is none that may have one. */
export async function lockMembership(
  db: Queryable,
  { accountId, personId, roles }: { accountId: string; personId: string; roles: readonly Role[] },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `SELECT FROM console.membership WHERE account_id = $1 AND person_id = $2 AND role = ANY ($3) FOR UPDATE`,
    [accountId, personId, roles],
  );
  return rowCount === 1;
}

export async function findPlaygroundKey(
  db: Queryable,
  { accountId, personId }: Pick<PlaygroundKey, "accountId" | "personId">,
): Promise<PlaygroundKey | undefined> {
  const statement = `SELECT ${columns} FROM console.playground_key WHERE account_id = $1 AND person_id = $2`;
  return (await db.query<PlaygroundKey>(statement, [accountId, personId])).rows[0];
}

/** Keeps a key in the place of the one before. */
export async function keepPlaygroundKey(db: Queryable, key: PlaygroundKey): Promise<void> {
  await db.query(
    `INSERT INTO console.playground_key (account_id, person_id, key_id, sealed_secret, expires_at)
     VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT (account_id, person_id) DO UPDATE SET key_id = $3, sealed_secret = $4, expires_at = $5`,
    [key.accountId, key.personId, key.keyId, key.sealedSecret, key.expiresAt],
  );
}

/** Keys that have expired, or whose person may not use them any more. */
export async function listEndedKeys(db: Queryable, roles: readonly Role[], limit: number): Promise<PlaygroundKey[]> {
  const { rows } = await db.query<PlaygroundKey>(
    `SELECT ${columns} FROM console.playground_key AS k
     WHERE expires_at <= now() OR NOT EXISTS (
       SELECT FROM console.membership AS m JOIN console.person AS p USING (person_id)
       WHERE m.account_id = k.account_id AND m.person_id = k.person_id AND m.role = ANY ($1) AND p.status = 'active')
     LIMIT $2`,
    [roles, limit],
  );
  return rows;
}

export async function deletePlaygroundKey(db: Queryable, { accountId, personId, keyId }: PlaygroundKey): Promise<void> {
  const statement = "DELETE FROM console.playground_key WHERE account_id = $1 AND person_id = $2 AND key_id = $3";
  await db.query(statement, [accountId, personId, keyId]);
}
