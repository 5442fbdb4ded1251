import { randomUUID } from "node:crypto";
import { ServiceError } from "#shared/process/errors.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Pool, Queryable } from "#shared/stores/postgres.ts";
import type { SignedInRequest } from "./html/route.ts";
import { insertAudit, type AuditEntry, type AuditValues } from "./store/audit.ts";

/** All actions in the audit log; its filter lists them. */
export const auditActions = [
  "person.bootstrap",
  "person.stop",
  "person.activate",
  "sign-in",
  "sign-in.lock",
  "sign-out",
  "password.change",
  "second-factor.set",
  "second-factor.remove",
  "second-factor.recovery-codes",
  "second-factor.recovery-code-used",
  "session.end",
  "invitation.create",
  "invitation.withdraw",
  "invitation.accept",
  "member.join",
  "member.role",
  "member.remove",
  "domain.claim",
  "domain.verify",
  "domain.role",
  "domain.remove",
  "domain.lapse",
  "key.create",
  "key.change",
  "key.stop",
  "key.activate",
  "key.delete",
  "account.create",
  "account.change",
  "account.suspend",
  "account.activate",
  "account.credit",
  "account.correct",
  "account.refund",
  "budget.change",
  "top-up.begin",
  "top-up.book",
  "top-up.decline",
  "auto-top-up.change",
  "card.remove",
  "top-up.reverse",
  "alerts.change",
  "webhook.create",
  "webhook.delete",
  "webhook.secret",
  "voucher.redeem",
  "vouchers.create",
  "vouchers.void",
  "maintenance.begin",
  "maintenance.end",
  "catalog.draft",
  "catalog.apply",
  "catalog.rollback",
  "upstream.test",
  "quarantine.retry",
  "ledger.replay",
  "report.make",
  "identity.link",
  "identity.unlink",
  "password.reset",
] as const;

export type AuditAction = (typeof auditActions)[number];

/** An action and its target. */
export type AuditEvent = {
  action: AuditAction;
  accountId?: string;
  target: string;
  before?: AuditValues;
  after?: AuditValues;
};

export type Actor = Pick<AuditEntry, "personId" | "email" | "address">;

/** The actor of a request. */
export function actorOf({ visitor, address }: Pick<SignedInRequest, "visitor" | "address">): Actor {
  return { personId: visitor.person.personId, email: visitor.person.email, address };
}

/** Records an event in the transaction of the action itself, which `db` must be. */
export function recordAudit(db: Queryable, who: Actor, event: AuditEvent): Promise<void> {
  return insertAudit(db, { ...entryOf(who, event), operationId: randomUUID(), outcome: "done" });
}

const entryOf = (who: Actor, { action, accountId, target, before, after }: AuditEvent) => ({
  ...who,
  action,
  accountId: accountId ?? null,
  target,
  before: before ?? null,
  after: after ?? null,
});

/** The result of an action, with the fields known only after it. */
type AuditedResult<T> = { result: T } & Partial<Pick<AuditEntry, "target" | "accountId" | "after">>;

/**
 * Records an action of another service before and after it: no transaction spans both, so a line `asked` without a
 * second line means that the outcome is unknown. In that line, `after` is the requested state.
 */
export async function auditAround<T>(
  { pool, log }: { pool: Pool; log: Logger },
  who: Actor,
  event: AuditEvent,
  work: () => Promise<AuditedResult<T>>,
): Promise<T> {
  const operation = { ...entryOf(who, event), operationId: randomUUID() };
  await insertAudit(pool, { ...operation, outcome: "asked" });
  // The outcome stands even when it cannot be recorded: the caller gets it, and the line `asked` remains.
  const noteOutcome = async (outcome: Partial<AuditEntry> & Pick<AuditEntry, "outcome">): Promise<void> => {
    try {
      await insertAudit(pool, { ...operation, ...outcome });
    } catch (error) {
      log.error(
        { err: error, action: event.action, operationId: operation.operationId },
        "failed to record an outcome in the audit log",
      );
    }
  };
  try {
    const { result, ...learned } = await work();
    await noteOutcome({ outcome: "done", ...learned });
    return result;
  } catch (error) {
    if (isRefusal(error)) await noteOutcome({ outcome: "failed" });
    throw error;
  }
}

// After any other error, the other service may still have done it.
const isRefusal = (error: unknown): boolean =>
  error instanceof ServiceError && error.code !== "unavailable" && error.code !== "internal";
