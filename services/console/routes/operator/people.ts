import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { button, emailField, form, instant, nextPage, table } from "../../html/controls.ts";
import { readEmail } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { invitationLink } from "../../invitation-link.ts";
import type { Parts } from "../../parts.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type Answer,
  type Route,
  type SignedIn,
} from "../../html/route.ts";
import { createToken, hashToken } from "../../credentials/secrets.ts";
import { insertInvitation, listInvitations, withdrawInvitation } from "../../store/invitations.ts";
import { endResets, insertReset, resetHours } from "../../store/password-resets.ts";
import { listPeople, lockPerson, setStatus, type PersonLine } from "../../store/people.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import { note, whoOf } from "../../trail.ts";

const pageSize = 50;
const mostInvitations = 100;
const base = "/operator/people";
const action = "people.manage";

/** Everybody who may sign in, for operators; and invitations for further operators. */
export function peopleRoutes(parts: Parts): Route[] {
  return [
    operatorRoute(get("/people"), action, async (asked) => page("People", await list(parts, asked))),
    operatorRoute(post("/people/operators"), action, (asked) => inviteOperator(parts, asked)),
    operatorRoute(post("/people/operators/:id/withdraw"), action, (asked) => withdraw(parts, asked)),
    operatorRoute(post("/people/:id/stop"), action, (asked) => switchPerson(parts, asked, "stop")),
    operatorRoute(post("/people/:id/activate"), action, (asked) => switchPerson(parts, asked, "activate")),
    operatorRoute(post("/people/:id/password-reset"), action, (asked) => makeReset(parts, asked)),
  ];
}

async function list({ pool }: Parts, asked: SignedIn): Promise<Markup> {
  const people = await listPeople(pool, asked.query("after"), pageSize + 1);
  const shown = people.slice(0, pageSize);
  const last = people.length > pageSize ? shown.at(-1) : undefined;
  const invitations = await listInvitations(pool, null, mostInvitations);
  const head = ["Address", "State", "Second factor", "Operator", "Accounts", "Actions"];
  const rows = shown.map((person) => personRow(asked, person));
  const open = invitations.map(({ invitationId, email, expiresAt }) => {
    const sent = { action: `${base}/operators/${invitationId}/withdraw`, button: "Take back" };
    return html`<tr>
      <th scope="row">${email}</th>
      <td>${instant(expiresAt)}</td>
      <td>${button(asked, sent, `the invitation of ${email}`)}</td>
    </tr>`;
  });
  return html`${table("Everybody who may sign in", head, rows)}
    ${last && nextPage(`${base}?after=${encodeURIComponent(last.email)}`)}
    <h2>Invite an operator</h2>
    ${form(asked, { action: `${base}/operators`, button: "Invite as operator" }, emailField(asked.form))}
    ${table("Open invitations of operators", ["Address", "Until", "Actions"], open)}`;
}

function personRow(asked: SignedIn, person: PersonLine): Markup {
  const { personId, email, status, isLocked, hasSecondFactor, isOperator, accounts } = person;
  const turn = status === "active" ? "stop" : "activate";
  const sent = { action: `${base}/${personId}/${turn}`, button: turn === "stop" ? "Stop" : "Activate" };
  const isSelf = personId === asked.visitor.person.personId;
  const reset = { action: `${base}/${personId}/password-reset`, button: "Reset password" };
  return html`<tr>
    <th scope="row">${email}</th>
    <td>${status}${isLocked && ", locked"}</td>
    <td>${hasSecondFactor ? "yes" : "no"}</td>
    <td>${isOperator ? "yes" : "no"}</td>
    <td>${accounts}</td>
    <td>${isSelf ? "you" : html`${button(asked, sent, email)} ${turn === "stop" && button(asked, reset, email)}`}</td>
  </tr>`;
}

function idIn({ parameters }: SignedIn): string {
  const id = parameters["id"] ?? "";
  if (!isUuid(id)) throw new Problem("not-found");
  return id;
}

async function inviteOperator(parts: Parts, asked: SignedIn): Promise<Answer> {
  const email = readEmail(asked.form, "email");
  if (email === undefined) return again("People", await list(parts, asked));
  const token = createToken();
  await inTransaction(parts.pool, async (db) => {
    if ((await listInvitations(db, null, mostInvitations)).length >= mostInvitations) throw new Problem("refused");
    const invitedBy = asked.visitor.person.personId;
    const invitation = { tokenHash: hashToken(token), email, accountId: null, role: "operator", invitedBy } as const;
    const target = await insertInvitation(db, invitation);
    await note(db, whoOf(asked), { action: "invitation.create", target, after: { email, role: "operator" } });
  });
  return invitationLink(parts, { token, email, back: base });
}

async function withdraw({ pool }: Parts, asked: SignedIn): Promise<Answer> {
  const target = idIn(asked);
  await inTransaction(pool, async (db) => {
    const taken = await withdrawInvitation(db, null, target);
    if (!taken) throw new Problem("not-found");
    const before = { email: taken.email, role: taken.role };
    await note(db, whoOf(asked), { action: "invitation.withdraw", target, before });
  });
  return redirect(base, "The invitation is taken back.");
}

async function switchPerson({ pool }: Parts, asked: SignedIn, turn: "stop" | "activate"): Promise<Answer> {
  const target = idIn(asked);
  // The last operator could otherwise lock everybody out.
  if (target === asked.visitor.person.personId) throw new Problem("refused");
  const status = turn === "stop" ? "stopped" : "active";
  const email = await inTransaction(pool, async (db) => {
    const person = await lockPerson(db, target);
    if (!person) throw new Problem("not-found");
    await setStatus(db, target, status);
    if (turn === "stop") {
      await deleteOtherSessions(db, target);
      await endResets(db, target);
    }
    const [before, after] = [{ status: person.status }, { status }];
    await note(db, whoOf(asked), { action: `person.${turn}`, target, before, after });
    return person.email;
  });
  return redirect(base, `${email} is ${status}.`);
}

/** The link is shown this once. Whoever has it can sign in as this person, unless a second factor is set. */
async function makeReset({ pool, publicUrl }: Parts, asked: SignedIn): Promise<Answer> {
  const target = idIn(asked);
  const madeBy = asked.visitor.person.personId;
  // The own password is changed in the profile, which asks for the one before.
  if (target === madeBy) throw new Problem("refused");
  const token = createToken();
  const email = await inTransaction(pool, async (db) => {
    const person = await lockPerson(db, target);
    if (!person) throw new Problem("not-found");
    if (person.status !== "active") throw new Problem("refused");
    await insertReset(db, { tokenHash: hashToken(token), personId: target, madeBy });
    await note(db, whoOf(asked), { action: "password.reset", target, after: { email: person.email, link: "made" } });
    return person.email;
  });
  const body = html`<p class="problems">
      Send this link to ${email}, by a way on which nobody else reads. It is shown this once, works once, and for
      ${resetHours} hours; earlier ones are of no use any more. Whoever opens it sets the password of ${email}.
    </p>
    <p><code class="secret">${new URL(`/password-resets/${token}`, publicUrl).href}</code></p>
    <p>That it was made, and its use, are in the audit log, and ${email} is told who made it.</p>
    <p><a href="${base}">I have sent it: back</a></p>`;
  return page("Link for a new password", body);
}
