import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { form } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { signInPath } from "../../http/guard.ts";
import { html, type Markup } from "../../html/html.ts";
import { openSession, renewSession } from "../../sign-in/open-session.ts";
import type { Deps } from "../../deps.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import { memberRoles, type MemberRole } from "../../permissions.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, post, publicRoute, redirect } from "../../html/route.ts";
import type { PageResponse, PageRequest, Route, SignedInRequest } from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { findInvitation, takeInvitation, type Invitation } from "../../store/invitations.ts";
import { insertMembership } from "../../store/memberships.ts";
import { findPersonByEmail, insertPerson, makeOperator } from "../../store/people.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";

const title = "Invitation";

/** Accepting an invitation: with a new password, or as somebody who is signed in. */
export function invitationRoutes(deps: Deps): Route[] {
  return [
    publicRoute(get("/invitations/:token"), async (request) => {
      const invitation = await findInvitation(deps.pool, tokenHashOf(request));
      if (!invitation) return gone();
      return page(title, await invite(deps, request, invitation));
    }),
    publicRoute({ ...post("/invitations/:token"), isGuessable: true }, (request) => accept(deps, request)),
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
  const intro = html`<p>You (${email}) are invited ${purposeOf(invitation)}.</p>`;
  if (isFor(request, invitation)) return html`${intro}${form(request, { action: request.path, button: "Accept" })}`;
  if (request.visitor?.session.isComplete) {
    return html`${intro}
      <p>You are signed in as ${request.visitor.person.email}. Sign out first.</p>`;
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
  return html`${intro}${form(request, { action: request.path, button: "Accept" }, fields)}`;
}

async function accept(deps: Deps, request: PageRequest): Promise<PageResponse> {
  const invitation = await findInvitation(deps.pool, tokenHashOf(request));
  if (!invitation) return gone();
  if (isFor(request, invitation)) return acceptSignedIn(deps, request as SignedInRequest);
  if (request.visitor?.session.isComplete || (await findPersonByEmail(deps.pool, invitation.email))) {
    return again(title, await invite(deps, request, invitation));
  }
  const password = readNewPassword(request.form, invitation.email);
  if (password === undefined) return again(title, await invite(deps, request, invitation));
  return acceptAsNew(deps, request, await deps.passwords.hash(password));
}

async function acceptAsNew(deps: Deps, request: PageRequest, passwordHash: string): Promise<PageResponse> {
  const sessionToken = await inTransaction(deps.pool, async (db) => {
    const taken = await takeInvitation(db, tokenHashOf(request));
    if (!taken) return undefined;
    const { email, role } = taken;
    const personId = await insertPerson(db, { email, passwordHash, isOperator: role === "operator" });
    // Somebody got this address meanwhile: all is undone, and the page then asks to sign in.
    if (personId === undefined) throw new Problem("refused");
    await join(db, { personId, email, address: request.address }, taken);
    return openSession(db, request, { personId, isComplete: true, flash: "Welcome." });
  });
  return sessionToken === undefined ? gone() : { ...redirect("/"), sessionToken };
}

async function acceptSignedIn(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const outcome = await inTransaction(deps.pool, async (db) => {
    const taken = await takeInvitation(db, tokenHashOf(request));
    if (!taken) return undefined;
    const { personId } = request.visitor.person;
    if (taken.role === "operator") await makeOperator(db, personId);
    const isNew = await join(db, { ...actorOf(request), personId }, taken);
    return { isNew, sessionToken: await renewSession(db, request) };
  });
  if (!outcome) return gone();
  const flash = outcome.isNew ? "The invitation is accepted." : "You are a member already; your role stays as it was.";
  return { ...redirect("/", flash), sessionToken: outcome.sessionToken };
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
