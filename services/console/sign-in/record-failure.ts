import { inTransaction } from "#shared/stores/postgres.ts";
import type { Deps } from "../deps.ts";
import type { PageRequest } from "../html/route.ts";
import { countFailure } from "../store/people.ts";
import { recordAudit } from "../audit-log.ts";

/**
 * Counts a wrong password or code against the person with this address, if there is one; the one that locks is noted
 * in the audit log.
 */
export async function recordFailure(
  { pool, log }: Pick<Deps, "pool" | "log">,
  { address }: Pick<PageRequest, "address">,
  email: string,
): Promise<void> {
  await inTransaction(pool, async (db) => {
    if (!(await countFailure(db, email))) return;
    // Who it was is not known: the line names the address that was tried.
    await recordAudit(db, { personId: null, email, address }, { action: "sign-in.lock", target: email });
    log.warn({ address }, "sign-in locked after too many failures");
  });
}
