import { inTransaction } from "#shared/stores/postgres.ts";
import type { Parts } from "../parts.ts";
import type { Asked } from "../html/route.ts";
import { countFailure } from "../store/people.ts";
import { note } from "../trail.ts";

/**
 * Counts a wrong password or code against the person with this address, if there is one; the one that locks is noted
 * in the audit log.
 */
export async function noteFailure(
  { pool, log }: Pick<Parts, "pool" | "log">,
  { address }: Pick<Asked, "address">,
  email: string,
): Promise<void> {
  await inTransaction(pool, async (db) => {
    if (!(await countFailure(db, email))) return;
    // Who it was is not known: the line names the address that was tried.
    await note(db, { personId: null, email, address }, { action: "sign-in.lock", target: email });
    log.warn({ address }, "sign-in is locked after too many failures");
  });
}
