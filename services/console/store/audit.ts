import type { Queryable } from "#shared/stores/postgres.ts";

/** Values before or after a change, without secrets; bigint money as text. */
export type AuditValues = Record<string, string | number | boolean | null | string[]>;

export type AuditOutcome = "asked" | "done" | "failed";

export type AuditEntry = {
  operationId: string;
  outcome: AuditOutcome;
  personId: string | null;
  email: string;
  address: string;
  action: string;
  accountId: string | null;
  /** What it was done to: the id of a key, a person, a payment. */
  target: string;
  before: AuditValues | null;
  after: AuditValues | null;
};

export type AuditLine = AuditEntry & { auditId: bigint; at: Date };

/** Empty: whatever. Instants: from inclusive, until exclusive. */
export type AuditFilter = {
  email: string;
  action: string;
  accountId: string;
  from: Date | undefined;
  until: Date | undefined;
  beforeId: bigint | undefined;
};

export async function insertAudit(db: Queryable, entry: AuditEntry): Promise<void> {
  const { operationId, outcome, personId, email, address, action, accountId, target, before, after } = entry;
  await db.query(
    `INSERT INTO console.audit_entry
       (operation_id, outcome, person_id, email, address, action, account_id, target, before, after)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    [operationId, outcome, personId, email, address, action, accountId, target, before, after],
  );
}

/** Lines that pass the filter, newest first. */
export async function listAudit(db: Queryable, filter: AuditFilter, limit: number): Promise<AuditLine[]> {
  const { email, action, accountId, from, until, beforeId } = filter;
  const { rows } = await db.query<AuditLine>(
    `SELECT audit_id AS "auditId", at, operation_id AS "operationId", outcome, person_id AS "personId", email, address,
       action, account_id AS "accountId", target, before, after
     FROM console.audit_entry
     WHERE ($1 = '' OR email = $1) AND ($2 = '' OR action = $2) AND ($3 = '' OR account_id = $3)
       AND ($4::timestamptz IS NULL OR at >= $4) AND ($5::timestamptz IS NULL OR at < $5)
       AND ($6::bigint IS NULL OR audit_id < $6)
     ORDER BY audit_id DESC LIMIT $7`,
    [email, action, accountId, from ?? null, until ?? null, beforeId ?? null, limit],
  );
  return rows;
}
