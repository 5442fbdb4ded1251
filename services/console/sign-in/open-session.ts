import type { Queryable } from "#shared/stores/postgres.ts";
import { Problem } from "../html/problem.ts";
import type { PageRequest, SignedInRequest } from "../html/route.ts";
import { createToken, hashToken } from "../credentials/secrets.ts";
import { deleteSession, insertSession, rotateSession } from "../store/sessions.ts";

type NewSessionOptions = { personId: string; isComplete: boolean; flash?: string; issuer?: string | null };

/** Opens a session with a token of its own, whatever cookie came along, and tells the token. */
export async function openSession(
  db: Queryable,
  { address, browser }: Pick<PageRequest, "address" | "browser">,
  opened: NewSessionOptions,
): Promise<string> {
  const token = createToken();
  await insertSession(db, { ...opened, address, browser, tokenHash: hashToken(token) });
  return token;
}

/** Ends what the browser had before a sign-in, whoever had put it there. */
export async function endPresented(db: Queryable, { visitor }: Pick<PageRequest, "visitor">): Promise<void> {
  if (visitor) await deleteSession(db, visitor.person.personId, visitor.session.sessionId);
}

/** Gives the session another token after a change of what it may do, and tells it. */
export async function renewSession(db: Queryable, { visitor }: Pick<SignedInRequest, "visitor">): Promise<string> {
  const token = createToken();
  const { session, tokenHash } = visitor;
  if (!(await rotateSession(db, session.sessionId, tokenHash, hashToken(token)))) throw new Problem("refused");
  return token;
}
