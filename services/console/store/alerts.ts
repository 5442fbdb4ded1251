import type { Queryable } from "#shared/stores/postgres.ts";

/** What an account wants to be told of. */
export type AlertRule = {
  accountId: string;
  /** null: not of the balance. */
  lowBalanceNanos: bigint | null;
  /** Of a key's limit that is spent; null: not of keys. */
  limitPercent: number | null;
  isMailed: boolean;
};

const columns = `account_id AS "accountId", low_balance_nanos AS "lowBalanceNanos", limit_percent AS "limitPercent",
  is_mailed AS "isMailed"`;

export async function findAlertRule(db: Queryable, accountId: string): Promise<AlertRule | undefined> {
  const statement = `SELECT ${columns} FROM console.alert_rule WHERE account_id = $1`;
  return (await db.query<AlertRule>(statement, [accountId])).rows[0];
}

/** Sets the rule, which is compared with at once. */
export async function setAlertRule(db: Queryable, rule: AlertRule): Promise<void> {
  await db.query(
    `INSERT INTO console.alert_rule (account_id, low_balance_nanos, limit_percent, is_mailed) VALUES ($1, $2, $3, $4)
     ON CONFLICT (account_id) DO UPDATE SET low_balance_nanos = $2, limit_percent = $3, is_mailed = $4,
       checked_at = '-infinity'`,
    [rule.accountId, rule.lowBalanceNanos, rule.limitPercent, rule.isMailed],
  );
}

/** Takes rules that no replica has compared with for ten seconds. */
export async function takeAlertRules(db: Queryable, limit: number): Promise<AlertRule[]> {
  const { rows } = await db.query<AlertRule>(
    `UPDATE console.alert_rule SET checked_at = now() WHERE account_id IN (
       SELECT account_id FROM console.alert_rule WHERE checked_at < now() - interval '10 seconds'
       ORDER BY checked_at LIMIT $1 FOR UPDATE SKIP LOCKED)
     RETURNING ${columns}`,
    [limit],
  );
  return rows;
}

/** What of the accounts is on the wrong side and was told of. */
export async function listCrossings(db: Queryable, accountIds: string[]): Promise<Crossing[]> {
  const statement = `SELECT account_id AS "accountId", subject FROM console.alert_crossing WHERE account_id = ANY($1)`;
  return (await db.query<Crossing>(statement, [accountIds])).rows;
}

/** The balance of an account (subject ""), or a key of it. */
export type Crossing = { accountId: string; subject: string };

/** Notes that it went to the wrong side; whether it was this call that did, of any number at once. */
export async function addCrossing(db: Queryable, { accountId, subject }: Crossing): Promise<boolean> {
  const statement = "INSERT INTO console.alert_crossing (account_id, subject) VALUES ($1, $2) ON CONFLICT DO NOTHING";
  return (await db.query(statement, [accountId, subject])).rowCount === 1;
}

/** Notes that it came back: the next crossing is told again. */
export async function deleteCrossing(db: Queryable, { accountId, subject }: Crossing): Promise<void> {
  await db.query("DELETE FROM console.alert_crossing WHERE account_id = $1 AND subject = $2", [accountId, subject]);
}

/** Addresses of an account's owners who may sign in. */
export async function listOwnerAddresses(db: Queryable, accountId: string, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ email: string }>(
    `SELECT p.email FROM console.membership AS m JOIN console.person AS p USING (person_id)
     WHERE m.account_id = $1 AND m.role = 'owner' AND p.status = 'active' ORDER BY p.email LIMIT $2`,
    [accountId, limit],
  );
  return rows.map(({ email }) => email);
}
