import { inTransaction } from "#shared/stores/postgres.ts";
import { dayOf } from "../html/days.ts";
import { endPresented, openSession } from "./open-session.ts";
import type { Deps } from "../deps.ts";
import { redirect, type PageResponse, type PageRequest } from "../html/route.ts";
import { findLastReset } from "../store/password-resets.ts";
import { clearFailures, lockPerson, type Person } from "../store/people.ts";
import { recordAudit } from "../audit-log.ts";

/** Somebody who has shown who they are. `issuer`: where they did; null: with the password. */
export type SignInSubject = { person: Person; issuer: string | null; next: string };

/**
 * After the password, or an issuer's word: opens the session, which is half one while a second factor is owed.
 * undefined: the person is locked or stopped, or has another password since it was shown.
 */
export async function passFirstFactor(
  deps: Deps,
  request: PageRequest,
  shown: SignInSubject,
): Promise<PageResponse | undefined> {
  const { person, issuer, next } = shown;
  if (person.status !== "active" || person.isLocked) return undefined;
  if (person.totpSecret === null) return finishSignIn(deps, request, shown);
  const sessionToken = await inTransaction(deps.pool, async (db) => {
    const now = await lockPerson(db, person.personId);
    if (now?.passwordHash !== person.passwordHash) return undefined;
    await endPresented(db, request);
    return openSession(db, request, { personId: person.personId, isComplete: false, issuer });
  });
  if (sessionToken === undefined) return undefined;
  deps.metrics.signIns.inc({ outcome: "half" });
  return { ...redirect(`/sign-in/second-factor?next=${encodeURIComponent(next)}`), sessionToken };
}

/** Opens the whole session; undefined when the person was locked, stopped or given another password meanwhile. */
export async function finishSignIn(
  { pool, metrics }: Deps,
  request: PageRequest,
  shown: SignInSubject,
): Promise<PageResponse | undefined> {
  const { person, issuer, next } = shown;
  const { personId, email } = person;
  const sessionToken = await inTransaction(pool, async (db) => {
    if (!(await clearFailures(db, person))) return undefined;
    await endPresented(db, request);
    const after = issuer === null ? {} : { after: { by: issuer } };
    await recordAudit(
      db,
      { personId, email, address: request.address },
      { action: "sign-in", target: personId, ...after },
    );
    const reset = await findLastReset(db, personId);
    const flash = reset?.isRecent
      ? `Your password was reset on ${dayOf(reset.usedAt)} with a link that ${reset.madeBy} made. ` +
        "If you did not ask for it, tell another operator."
      : undefined;
    return openSession(db, request, { personId, isComplete: true, issuer, ...(flash !== undefined && { flash }) });
  });
  if (sessionToken === undefined) return undefined;
  metrics.signIns.inc({ outcome: "done" });
  return { ...redirect(next), sessionToken };
}
