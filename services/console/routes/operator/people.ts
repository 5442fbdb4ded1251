import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { button, emailField, form, instant, nextPage, table } from "../../html/controls.ts";
import { readEmail } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { invitationLink } from "../../invitation-link.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { createToken, hashToken } from "../../credentials/secrets.ts";
import { proofField, proveAgain } from "../../sign-in/prove-again.ts";
import { insertInvitation, listInvitations, withdrawInvitation } from "../../store/invitations.ts";
import { endResets, insertReset, resetHours } from "../../store/password-resets.ts";
import { listPeople, lockPerson, setStatus, type Person, type PersonLine } from "../../store/people.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";
import { lockCount } from "../../store/lock-count.ts";

const pageSize = 50;
const maxInvitations = 100;
const base = "/operator/people";
const action = "people.manage";

/** Everybody who may sign in, for operators; and invitations for further operators. */
export function peopleRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/people"), action, async (request) => page("People", await list(deps, request))),
    operatorRoute({ ...post("/people/operators"), isGuessable: true }, action, (request) =>
      inviteOperator(deps, request),
    ),
    operatorRoute(post("/people/operators/:id/withdraw"), action, (request) => withdraw(deps, request)),
    operatorRoute(post("/people/:id/stop"), action, (request) => switchPerson(deps, request, "stop")),
    operatorRoute(post("/people/:id/activate"), action, (request) => switchPerson(deps, request, "activate")),
    operatorRoute(get("/people/:id/password-reset"), action, async (request) =>
      page(resetTitle, await askForReset(deps, request)),
    ),
    operatorRoute({ ...post("/people/:id/password-reset"), isGuessable: true }, action, (request) =>
      makeReset(deps, request),
    ),
  ];
}

async function list({ pool }: Deps, request: SignedInRequest): Promise<Markup> {
  const people = await listPeople(pool, request.query("after"), pageSize + 1);
  const shown = people.slice(0, pageSize);
  const last = people.length > pageSize ? shown.at(-1) : undefined;
  const invitations = await listInvitations(pool, null, maxInvitations);
  const head = ["Address", "State", "Second factor", "Operator", "Accounts", "Actions"];
  const rows = shown.map((person) => personRow(request, person));
  const open = invitations.map(({ invitationId, email, expiresAt }) => {
    const sent = { action: `${base}/operators/${invitationId}/withdraw`, button: "Withdraw" };
    return html`<tr>
      <th scope="row">${email}</th>
      <td>${instant(expiresAt)}</td>
      <td>${button(request, sent, `the invitation of ${email}`)}</td>
    </tr>`;
  });
  return html`${table("Everybody who may sign in", head, rows)}
    ${last && nextPage(`${base}?after=${encodeURIComponent(last.email)}`)}
    <h2>Invite an operator</h2>
    ${form(
      request,
      { action: `${base}/operators`, button: "Invite as operator" },
      html`${emailField(request.form)} ${proofField(request.form, request.visitor.person)}`,
    )}
    ${table("Open invitations of operators", ["Address", "Until", "Actions"], open)}`;
}

function personRow(request: SignedInRequest, person: PersonLine): Markup {
  const { personId, email, status, isLocked, hasSecondFactor, isOperator, accounts } = person;
  const turn = status === "active" ? "stop" : "activate";
  const sent = { action: `${base}/${personId}/${turn}`, button: turn === "stop" ? "Stop" : "Activate" };
  const isSelf = personId === request.visitor.person.personId;
  const reset = `${base}/${personId}/password-reset`;
  const resetLink = html`<a href="${reset}">Reset password<span class="hidden"> of ${email}</span></a>`;
  return html`<tr>
    <th scope="row">${email}</th>
    <td>${status}${isLocked && ", locked"}</td>
    <td>${hasSecondFactor ? "yes" : "no"}</td>
    <td>${isOperator ? "yes" : "no"}</td>
    <td>${accounts}</td>
    <td>${isSelf ? "you" : html`${button(request, sent, email)} ${turn === "stop" && resetLink}`}</td>
  </tr>`;
}

function idIn({ parameters }: SignedInRequest): string {
  const id = parameters["id"] ?? "";
  if (!isUuid(id)) throw new Problem("not-found");
  return id;
}

async function inviteOperator(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const email = readEmail(request.form, "email");
  // A stolen session must not make itself another way in.
  if (email === undefined || !(await proveAgain(deps, request))) return again("People", await list(deps, request));
  const token = createToken();
  await inTransaction(deps.pool, async (db) => {
    await lockCount(db, "invitation", null);
    if ((await listInvitations(db, null, maxInvitations)).length >= maxInvitations) throw new Problem("refused");
    const invitedBy = request.visitor.person.personId;
    const invitation = { tokenHash: hashToken(token), email, accountId: null, role: "operator", invitedBy } as const;
    const target = await insertInvitation(db, invitation);
    await recordAudit(db, actorOf(request), {
      action: "invitation.create",
      target,
      after: { email, role: "operator" },
    });
  });
  return invitationLink(deps, {
    token,
    email,
    accountId: null,
    role: "operator",
    invitedBy: request.visitor,
    back: base,
  });
}

async function withdraw({ pool }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const target = idIn(request);
  await inTransaction(pool, async (db) => {
    const taken = await withdrawInvitation(db, null, target);
    if (!taken) throw new Problem("not-found");
    const before = { email: taken.email, role: taken.role };
    await recordAudit(db, actorOf(request), { action: "invitation.withdraw", target, before });
  });
  return redirect(base, "The invitation is taken back.");
}

async function switchPerson(
  { pool }: Deps,
  request: SignedInRequest,
  turn: "stop" | "activate",
): Promise<PageResponse> {
  const target = idIn(request);
  // The last operator could otherwise lock everybody out.
  if (target === request.visitor.person.personId) throw new Problem("refused");
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
    await recordAudit(db, actorOf(request), { action: `person.${turn}`, target, before, after });
    return person.email;
  });
  return redirect(base, `${email} is ${status}.`);
}

/** Whose password is to be reset, locked; the own one is changed in the profile, which asks for the one before. */
async function resetTarget(db: Queryable, request: SignedInRequest): Promise<Person> {
  const target = idIn(request);
  if (target === request.visitor.person.personId) throw new Problem("refused");
  const person = await lockPerson(db, target);
  if (!person) throw new Problem("not-found");
  if (person.status !== "active") throw new Problem("refused");
  return person;
}

const resetTitle = "Reset a password";

async function askForReset({ pool }: Deps, request: SignedInRequest): Promise<Markup> {
  const { email } = await resetTarget(pool, request);
  return html`<p>
      This makes a link with which whoever opens it sets the password of ${email}, within ${resetHours} hours.
    </p>
    ${form(
      request,
      { action: request.path, button: "Make the link" },
      proofField(request.form, request.visitor.person),
    )}
    <p><a href="${base}">Back</a></p>`;
}

/** The link is shown this once. Whoever has it can sign in as this person, unless a second factor is set. */
async function makeReset(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { pool, publicUrl } = deps;
  // Looked for before anything is asked.
  await resetTarget(pool, request);
  if (!(await proveAgain(deps, request))) return again(resetTitle, await askForReset(deps, request));
  const madeBy = request.visitor.person.personId;
  const token = createToken();
  const email = await inTransaction(pool, async (db) => {
    const { personId, email } = await resetTarget(db, request);
    await insertReset(db, { tokenHash: hashToken(token), personId, madeBy });
    await recordAudit(db, actorOf(request), {
      action: "password.reset",
      target: personId,
      after: { email, link: "made" },
    });
    return email;
  });
  const body = html`<p class="problems">
      Send this link to ${email}, by a way on which nobody else reads. It is shown this once, works once, and for
      ${resetHours} hours; earlier ones are of no use any more. Whoever opens it sets the password of ${email}.
    </p>
    <p><code class="secret">${new URL(`/password-resets/${token}`, publicUrl).href}</code></p>
    <p>Its creation and use are recorded in the audit log, and ${email} sees who created it.</p>
    <p><a href="${base}">I have sent it: back</a></p>`;
  return page("Link for a new password", body);
}
