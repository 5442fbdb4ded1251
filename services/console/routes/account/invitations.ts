import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { form } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { signInPath } from "../../http/guard.ts";
import { html, type Markup } from "../../html/html.ts";
import { openSession, renewSession } from "../../sign-in/open-session.ts";
import type { Parts } from "../../parts.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import { memberRoles, type MemberRole } from "../../permissions.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, post, publicRoute, redirect } from "../../html/route.ts";
import type { Answer, Asked, Route, SignedIn } from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { findInvitation, takeInvitation, type Invitation } from "../../store/invitations.ts";
import { insertMembership } from "../../store/memberships.ts";
import { findPersonByEmail, insertPerson, makeOperator } from "../../store/people.ts";
import { note, whoOf } from "../../trail.ts";

const title = "Invitation";

/** Accepting an invitation: with a new password, or as somebody who is signed in. */
export function invitationRoutes(parts: Parts): Route[] {
  return [
    publicRoute(get("/invitations/:token"), async (asked) => {
      const invitation = await findInvitation(parts.pool, tokenHashOf(asked));
      if (!invitation) return gone();
      return page(title, await invite(parts, asked, invitation));
    }),
    publicRoute({ ...post("/invitations/:token"), isGuessable: true }, (asked) => accept(parts, asked)),
  ];
}

const tokenHashOf = ({ parameters }: Asked): Buffer => hashToken(parameters["token"] ?? "");

function gone(): Answer {
  const text = "This invitation was used, was taken back, or is too old. Ask whoever sent it for another one.";
  return page(title, html`<p>${text}</p>`, { status: 404 });
}

const purposeOf = ({ accountId, role }: Invitation): string =>
  accountId === null ? "to be an operator of this console" : `to the account ${accountId} as ${role}`;

function isFor({ visitor }: Asked, { email }: Invitation): boolean {
  return visitor?.session.isComplete === true && visitor.person.email === email;
}

async function invite(parts: Parts, asked: Asked, invitation: Invitation): Promise<Markup> {
  const { email } = invitation;
  const intro = html`<p>You (${email}) are invited ${purposeOf(invitation)}.</p>`;
  if (isFor(asked, invitation)) return html`${intro}${form(asked, { action: asked.path, button: "Accept" })}`;
  if (asked.visitor?.session.isComplete) {
    return html`${intro}
      <p>You are signed in as ${asked.visitor.person.email}. Sign out first.</p>`;
  }
  if (await findPersonByEmail(parts.pool, email)) {
    return html`${intro}
      <p><a href="${signInPath(asked.path)}">Sign in</a> to accept it.</p>`;
  }
  const fields = html`<input type="hidden" autocomplete="username" value="${email}" />${newPasswordFields(asked.form)}`;
  return html`${intro}${form(asked, { action: asked.path, button: "Accept" }, fields)}`;
}

async function accept(parts: Parts, asked: Asked): Promise<Answer> {
  const invitation = await findInvitation(parts.pool, tokenHashOf(asked));
  if (!invitation) return gone();
  if (isFor(asked, invitation)) return acceptSignedIn(parts, asked as SignedIn);
  if (asked.visitor?.session.isComplete || (await findPersonByEmail(parts.pool, invitation.email))) {
    return again(title, await invite(parts, asked, invitation));
  }
  const password = readNewPassword(asked.form, invitation.email);
  if (password === undefined) return again(title, await invite(parts, asked, invitation));
  return acceptAsNew(parts, asked, await parts.passwords.hash(password));
}

async function acceptAsNew(parts: Parts, asked: Asked, passwordHash: string): Promise<Answer> {
  const sessionToken = await inTransaction(parts.pool, async (db) => {
    const taken = await takeInvitation(db, tokenHashOf(asked));
    if (!taken) return undefined;
    const { email, role } = taken;
    const personId = await insertPerson(db, { email, passwordHash, isOperator: role === "operator" });
    // Somebody got this address meanwhile: all is undone, and the page then asks to sign in.
    if (personId === undefined) throw new Problem("refused");
    await join(db, { personId, email, address: asked.address }, taken);
    return openSession(db, asked, { personId, isComplete: true, flash: "Welcome." });
  });
  return sessionToken === undefined ? gone() : { ...redirect("/"), sessionToken };
}

async function acceptSignedIn(parts: Parts, asked: SignedIn): Promise<Answer> {
  const outcome = await inTransaction(parts.pool, async (db) => {
    const taken = await takeInvitation(db, tokenHashOf(asked));
    if (!taken) return undefined;
    const { personId } = asked.visitor.person;
    if (taken.role === "operator") await makeOperator(db, personId);
    const isNew = await join(db, { ...whoOf(asked), personId }, taken);
    return { isNew, sessionToken: await renewSession(db, asked) };
  });
  if (!outcome) return gone();
  const flash = outcome.isNew ? "The invitation is accepted." : "You are a member already; your role stays as it was.";
  return { ...redirect("/", flash), sessionToken: outcome.sessionToken };
}

type Joining = { personId: string; email: string; address: string };

/** Gives the role of the invitation; false when the person had one in the account, which stays. */
async function join(db: Queryable, who: Joining, invitation: Invitation): Promise<boolean> {
  const { accountId, role, invitationId } = invitation;
  const memberRole = memberRoles.find((known): known is MemberRole => known === role);
  const isNew =
    accountId === null || memberRole === undefined
      ? true
      : await insertMembership(db, { personId: who.personId, accountId, role: memberRole });
  await note(db, who, {
    action: "invitation.accept",
    ...(accountId !== null && { accountId }),
    target: invitationId,
    after: { email: who.email, role, isNew },
  });
  return isNew;
}
