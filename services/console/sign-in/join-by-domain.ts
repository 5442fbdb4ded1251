import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { recordAudit } from "../audit-log.ts";
import type { Seen } from "../credentials/oidc.ts";
import { createToken } from "../credentials/secrets.ts";
import type { Deps } from "../deps.ts";
import { domainOf, spellingsOf } from "../email-address.ts";
import { Problem } from "../html/problem.ts";
import type { PageRequest } from "../html/route.ts";
import { lockRule } from "../store/domains.ts";
import { insertIdentity, type Identity } from "../store/identities.ts";
import { hasInvitationFor } from "../store/invitations.ts";
import { countMembersOfDay, insertMembership } from "../store/memberships.ts";
import { hasPersonOf, insertPerson } from "../store/people.ts";
import { endPresented, openSession } from "./open-session.ts";
import type { Trouble } from "./sign-in-messages.ts";
import { lockCount } from "../store/lock-count.ts";

/** Most people that an account gets in a day, by whatever way, before nobody joins by a domain any more. */
const maxMembersOfDay = 200;

/**
 * Takes somebody in whom nobody here is linked to, when an account has the domain of the address that the issuer has
 * checked; tells the token of the session. Never anybody who is here already, under whichever spelling of the address:
 * an issuer's word takes nobody over.
 */
export async function joinByDomain(
  { pool, passwords, domainSignIn }: Pick<Deps, "pool" | "passwords" | "domainSignIn">,
  request: PageRequest,
  { identity, email }: Seen,
): Promise<{ sessionToken: string } | Trouble> {
  const domain = email === undefined ? undefined : domainOf(email);
  if (!domainSignIn || email === undefined || domain === undefined) return "unknown";
  const spellings = spellingsOf(email);
  if (!(await lockRule(pool, domain)) || (await hasPersonOf(pool, spellings))) return "unknown";
  const passwordHash = await passwords.hash(createToken());
  return inTransaction(pool, async (db) => {
    const rule = await lockRule(db, domain);
    if (!rule) return "unknown";
    // What an owner has said of this very person counts before what holds for all.
    if (await hasInvitationFor(db, rule.accountId, spellings)) return "invited";
    await lockCount(db, "member", rule.accountId);
    if ((await countMembersOfDay(db, rule.accountId)) >= maxMembersOfDay) return "refused";
    const [address] = spellings;
    if (await hasPersonOf(db, spellings)) return "unknown";
    const personId = await insertPerson(db, { email: address, passwordHash, hasPassword: false, isOperator: false });
    if (personId === undefined) return "unknown";
    await admit(db, { ...rule, identity, personId, email: address, address: request.address });
    await endPresented(db, request);
    const flash = `Welcome. Your address in ${domain} makes you ${rule.role} of the account ${rule.accountId}.`;
    const opened = { personId, isComplete: true, issuer: identity.issuer, flash };
    return { sessionToken: await openSession(db, request, opened) };
  });
}

type Newcomer = {
  accountId: string;
  domain: string;
  role: "developer" | "billing" | "viewer";
  identity: Identity;
  personId: string;
  email: string;
  address: string;
};

async function admit(db: Queryable, newcomer: Newcomer): Promise<void> {
  const { accountId, domain, role, identity, personId, email, address } = newcomer;
  // Another browser of the same person was faster: all is undone.
  if (!(await insertIdentity(db, { ...identity, personId }))) throw new Problem("refused");
  await insertMembership(db, { personId, accountId, role });
  const who = { personId, email, address };
  const { issuer } = identity;
  await recordAudit(db, who, { action: "identity.link", target: personId, after: identity });
  await recordAudit(db, who, {
    action: "member.join",
    accountId,
    target: personId,
    after: { email, role, domain, by: issuer },
  });
  await recordAudit(db, who, { action: "sign-in", target: personId, after: { by: issuer } });
}
