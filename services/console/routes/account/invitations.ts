import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Seen } from "../../credentials/oidc.ts";
import { createToken, hashToken } from "../../credentials/secrets.ts";
import type { Deps } from "../../deps.ts";
import { isSameAddress, spellingsOf } from "../../email-address.ts";
import { form } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { currentPasswordField, newPasswordFields } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, post, publicRoute, redirect } from "../../html/route.ts";
import type { PageRequest, PageResponse, Route, SignedInRequest } from "../../html/route.ts";
import { signInPath } from "../../http/guard.ts";
import { memberRoles, type MemberRole } from "../../permissions.ts";
import { configuredIssuer, leaveForIssuer } from "../../sign-in/at-issuer.ts";
import { endPresented, openSession, renewSession } from "../../sign-in/open-session.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import { signInMessage, type Trouble } from "../../sign-in/sign-in-messages.ts";
import { findPersonByIdentity, insertIdentity, listIdentities, type Identity } from "../../store/identities.ts";
import {
  findInvitation,
  findInvitationOf,
  takeInvitation,
  takeInvitationOf,
  type Invitation,
} from "../../store/invitations.ts";
import { insertMembership } from "../../store/memberships.ts";
import { firstPasswordPath } from "../person/first-password.ts";
import { findPersonByEmail, hasPersonOf, insertPerson, makeOperator } from "../../store/people.ts";

const title = "Invitation";

/** Accepting an invitation: with a new password, with the issuer, or as somebody who is signed in. */
export function invitationRoutes(deps: Deps): Route[] {
  return [
    publicRoute(get("/invitations/:token"), async (request) => {
      const invitation = await findInvitation(deps.pool, tokenHashOf(request));
      if (!invitation) return gone();
      return page(title, await invite(deps, request, invitation));
    }),
    publicRoute({ ...post("/invitations/:token"), isGuessable: true }, (request) => accept(deps, request)),
    publicRoute({ ...post("/invitations/:token/oidc"), isGuessable: true }, (request) => leave(deps, request)),
  ];
}

const tokenHashOf = ({ parameters }: PageRequest): Buffer => hashToken(parameters["token"] ?? "");

function gone(): PageResponse {
  const text = "This invitation was used, was taken back, or is too old. Ask whoever sent it for another one.";
  return page(title, html`<p>${text}</p>`, { status: 404 });
}

const purposeOf = ({ accountId, role }: Invitation): string =>
  accountId === null ? "to be an operator of this console" : `to the account ${accountId} as ${role}`;

function isFor({ visitor }: PageRequest, { email }: Invitation): boolean {
  return visitor?.session.isComplete === true && visitor.person.email === email;
}

async function invite(deps: Deps, request: PageRequest, invitation: Invitation): Promise<Markup> {
  const { email } = invitation;
  const intro = html`${signInMessage(request.query("note"), deps.oidc?.name)}
    <p>You (${email}) are invited ${purposeOf(invitation)}.</p>`;
  const { visitor } = request;
  if (isFor(request, invitation)) {
    const accepting = html`${intro}${form(request, { action: request.path, button: "Accept" })}`;
    return html`${accepting}${await linkForm(deps, request as SignedInRequest)}`;
  }
  if (visitor?.session.isComplete) {
    return html`${intro}
      <p>You are signed in as ${visitor.person.email}. Sign out, then open the link again.</p>
      ${form(request, { action: "/sign-out", button: "Sign out" })}`;
  }
  if (await findPersonByEmail(deps.pool, email)) {
    return html`${intro}
      <p><a href="${signInPath(request.path)}">Sign in</a> to accept it.</p>`;
  }
  const fields = html`<input
      type="hidden"
      autocomplete="username"
      value="${email}"
    />${newPasswordFields(request.form)}`;
  return html`${intro}${issuerForm(deps, request, invitation)}
  ${form(request, { action: request.path, button: "Accept" }, fields)}`;
}

/** Operators choose a password in any case: it is what they prove again with. */
function issuerForm({ oidc }: Deps, request: PageRequest, { email, role }: Invitation): Markup | undefined {
  if (!oidc || role === "operator") return undefined;
  const { name } = oidc;
  return html`<p>If ${email} is your address at ${name}, too, you need no password here.</p>
    ${form(request, { action: `${request.path}/oidc`, button: `Accept with ${name}` })}
    <h2>Or choose a password</h2>`;
}

/** For somebody who is here already: accepts, and links as the profile does, which takes the password. */
async function linkForm({ oidc, pool }: Deps, request: SignedInRequest): Promise<Markup | undefined> {
  const { personId, hasPassword } = request.visitor.person;
  if (!oidc || !hasPassword) return undefined;
  const identities = await listIdentities(pool, personId);
  if (identities.some(({ issuer }) => oidc.isOf(issuer))) return undefined;
  const { name } = oidc;
  const sent = { action: `${request.path}/oidc`, button: `Accept and link ${name}` };
  return html`<p>You can also sign in with ${name} from now on.</p>
    ${form(request, sent, currentPasswordField(request.form))}`;
}

async function accept(deps: Deps, request: PageRequest): Promise<PageResponse> {
  const invitation = await findInvitation(deps.pool, tokenHashOf(request));
  if (!invitation) return gone();
  const take = (db: Queryable) => takeInvitation(db, tokenHashOf(request));
  if (isFor(request, invitation)) {
    const signedIn = request as SignedInRequest;
    const isOwing = invitation.role === "operator" && !signedIn.visitor.person.hasPassword;
    if (!isOwing) return acceptSignedIn(deps, signedIn, take);
    return redirect(firstPasswordPath, "Set a password first, which operators need, then open the link again.");
  }
  if (request.visitor?.session.isComplete || (await findPersonByEmail(deps.pool, invitation.email))) {
    return again(title, await invite(deps, request, invitation));
  }
  const password = readNewPassword(request.form, invitation.email);
  if (password === undefined) return again(title, await invite(deps, request, invitation));
  return acceptAsNew(deps, request, { take, passwordHash: await deps.passwords.hash(password) });
}

/** Shows the invitation's secret and goes to the issuer; which invitation it was is sealed in the attempt. */
async function leave(deps: Deps, request: PageRequest): Promise<PageResponse> {
  configuredIssuer(deps);
  const path = request.path.slice(0, -"/oidc".length);
  const invitation = await findInvitation(deps.pool, tokenHashOf(request));
  if (!invitation) return gone();
  const { visitor } = request;
  const isSignedIn = isFor(request, invitation);
  if (!isSignedIn && (visitor?.session.isComplete || !(await isForNew(deps, invitation)))) return redirect(path);
  if (isSignedIn && !(await isOwnPassword(deps, request as SignedInRequest))) {
    return again(title, await invite(deps, { ...request, path }, invitation));
  }
  const purpose = { kind: "invitation", invitationId: invitation.invitationId } as const;
  const sessionId = isSignedIn ? (visitor?.session.sessionId ?? null) : null;
  return (await leaveForIssuer(deps, request, { purpose, sessionId, next: path })) ?? redirect(`${path}?note=away`);
}

/** Whether somebody new may accept it with the issuer. */
const isForNew = async ({ pool }: Deps, { email, role }: Invitation): Promise<boolean> =>
  role !== "operator" && !(await hasPersonOf(pool, spellingsOf(email)));

type Arrival = { invitationId: string; sessionId: string | null; next: string; seen: Seen };

/**
 * Back from the issuer, in the browser that has shown the secret. Somebody new is who the issuer says that they are,
 * and must have the invited address there, checked. Somebody who is here already is linked as from the profile: nobody
 * is taken over by what an issuer says of an address.
 */
export async function acceptFromIssuer(
  deps: Deps,
  request: PageRequest,
  { invitationId, sessionId, next, seen: { identity, email } }: Arrival,
): Promise<PageResponse | Trouble> {
  const { pool, passwords } = deps;
  const invitation = await findInvitationOf(pool, invitationId);
  if (!invitation) return gone();
  const take = (db: Queryable) => takeInvitationOf(db, invitationId);
  if (await findPersonByIdentity(pool, identity)) return "taken";
  if (sessionId !== null) {
    if (!isFor(request, invitation)) return "stale";
    return acceptSignedIn(deps, request as SignedInRequest, take, identity);
  }
  // Somebody has signed in here meanwhile, or got this address: the page says what to do.
  if (request.visitor?.session.isComplete || !(await isForNew(deps, invitation))) return redirect(next);
  if (email === undefined || !isSameAddress(email, invitation.email)) return "no-address";
  return acceptAsNew(deps, request, { take, passwordHash: await passwords.hash(createToken()), identity });
}

type Take = (db: Queryable) => Promise<Invitation | undefined>;

async function acceptAsNew(
  deps: Deps,
  request: PageRequest,
  { take, passwordHash, identity }: { take: Take; passwordHash: string; identity?: Identity },
): Promise<PageResponse> {
  const sessionToken = await inTransaction(deps.pool, async (db) => {
    const taken = await take(db);
    if (!taken) return undefined;
    const { email, role } = taken;
    const isOperator = role === "operator";
    const personId = await insertPerson(db, { email, passwordHash, isOperator, hasPassword: identity === undefined });
    // Somebody got this address meanwhile: all is undone, and the page then asks to sign in.
    if (personId === undefined) throw new Problem("refused");
    const who = { personId, email, address: request.address };
    if (identity) await linkTo(db, who, identity);
    await join(db, who, taken);
    await endPresented(db, request);
    const issuer = identity?.issuer ?? null;
    return openSession(db, request, { personId, isComplete: true, issuer, flash: "Welcome." });
  });
  return sessionToken === undefined ? gone() : { ...redirect("/"), sessionToken };
}

async function acceptSignedIn(
  deps: Deps,
  request: SignedInRequest,
  take: Take,
  identity?: Identity,
): Promise<PageResponse> {
  const outcome = await inTransaction(deps.pool, async (db) => {
    const taken = await take(db);
    if (!taken) return undefined;
    const { personId } = request.visitor.person;
    if (identity) await linkTo(db, { ...actorOf(request), personId }, identity);
    if (taken.role === "operator") await makeOperator(db, personId);
    const isNew = await join(db, { ...actorOf(request), personId }, taken);
    return { isNew, sessionToken: await renewSession(db, request) };
  });
  if (!outcome) return gone();
  const flash = outcome.isNew ? "The invitation is accepted." : "You are a member already; your role stays as it was.";
  return { ...redirect("/", flash), sessionToken: outcome.sessionToken };
}

/** Links, or undoes all when somebody has linked either meanwhile. */
async function linkTo(db: Queryable, who: NewMember, identity: Identity): Promise<void> {
  const { personId } = who;
  if (!(await insertIdentity(db, { ...identity, personId }))) throw new Problem("refused");
  await recordAudit(db, who, { action: "identity.link", target: personId, after: identity });
}

type NewMember = { personId: string; email: string; address: string };

/** Gives the role of the invitation; false when the person had one in the account, which stays. */
async function join(db: Queryable, who: NewMember, invitation: Invitation): Promise<boolean> {
  const { accountId, role, invitationId } = invitation;
  const memberRole = memberRoles.find((known): known is MemberRole => known === role);
  const isNew =
    accountId === null || memberRole === undefined
      ? true
      : await insertMembership(db, { personId: who.personId, accountId, role: memberRole });
  await recordAudit(db, who, {
    action: "invitation.accept",
    ...(accountId !== null && { accountId }),
    target: invitationId,
    after: { email: who.email, role, isNew },
  });
  return isNew;
}
