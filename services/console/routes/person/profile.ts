import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { button, figure, form, instant, table } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import type { Deps } from "../../deps.ts";
import { currentPasswordField, newPasswordFields } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  page,
  personRoute,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { endResets, findLastReset } from "../../store/password-resets.ts";
import { setPasswordHash } from "../../store/people.ts";
import { countRecoveryCodes } from "../../store/second-factor.ts";
import { firstPasswordPath } from "./first-password.ts";
import { deleteOtherSessions, deleteSession, listSessions, type SessionLine } from "../../store/sessions.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";

const sessionsPath = "/profile/sessions";
const passwordTitle = "Change password";

/** A person's own password and sessions. */
export function profileRoutes(deps: Deps): Route[] {
  return [
    personRoute(get("/profile"), async (request) => page("My profile", await profile(deps, request))),
    personRoute(get("/profile/password"), async (request) =>
      request.visitor.person.hasPassword ? page(passwordTitle, passwordForm(request)) : redirect(firstPasswordPath),
    ),
    personRoute({ ...post("/profile/password"), isGuessable: true }, (request) => changePassword(deps, request)),
    personRoute(get(sessionsPath), async (request) => page("Sessions", await sessions(deps, request))),
    personRoute(post(`${sessionsPath}/end-others`), (request) => endOthers(deps, request)),
    personRoute(post(`${sessionsPath}/:sessionId/end`), (request) => endOne(deps, request)),
  ];
}

async function profile({ pool, oidc }: Deps, { visitor }: SignedInRequest): Promise<Markup> {
  const { personId, email, totpSecret, isOperator, hasPassword } = visitor.person;
  const codes = totpSecret === null ? 0 : await countRecoveryCodes(pool, personId);
  const reset = await findLastReset(pool, personId);
  const factor =
    totpSecret === null
      ? `not set up${hasPassword ? "" : "; set a password first"}`
      : `set up; ${codes} recovery codes are left`;
  return html`<dl>
      ${figure("E-mail address", email)} ${figure("Second factor", factor)}
      ${figure("Operator", isOperator ? "yes" : "no")}
      ${
        reset &&
        figure("Last reset of the password", html`${instant(reset.usedAt)}, with a link that ${reset.madeBy} made`)
      }
    </dl>
    <ul>
      <li><a href="/profile/password">${hasPassword ? passwordTitle : "Set a password"}</a></li>
      ${
        hasPassword &&
        html`<li>
          <a href="/profile/second-factor">${totpSecret === null ? "Set up a second factor" : "Second factor"}</a>
        </li>`
      }
      ${oidc && html`<li><a href="/profile/identities">Sign-in with ${oidc.name}</a></li>`}
      <li><a href="${sessionsPath}">Sessions</a></li>
    </ul>`;
}

function passwordForm(request: SignedInRequest): Markup {
  return form(
    request,
    { action: "/profile/password", button: passwordTitle },
    html`<p>All your other sessions will end.</p>
      ${currentPasswordField(request.form)}${newPasswordFields(request.form)}`,
  );
}

async function changePassword(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { pool, passwords } = deps;
  const { person, session } = request.visitor;
  const { personId } = person;
  const password = readNewPassword(request.form, person.email);
  if (password === undefined || !(await isOwnPassword(deps, request)))
    return again(passwordTitle, passwordForm(request));
  const passwordHash = await passwords.hash(password);
  const sessionToken = await inTransaction(pool, async (db) => {
    await setPasswordHash(db, personId, passwordHash);
    await endResets(db, personId);
    const endedSessions = await deleteOtherSessions(db, personId, session.sessionId);
    await recordAudit(db, actorOf(request), { action: "password.change", target: personId, after: { endedSessions } });
    return renewSession(db, request);
  });
  return { ...redirect("/profile", "Your password is changed, and your other sessions have ended."), sessionToken };
}

async function sessions({ pool }: Deps, request: SignedInRequest): Promise<Markup> {
  const { person, session } = request.visitor;
  const all = await listSessions(pool, person.personId);
  const rows = all.map((line) => sessionRow(request, line, line.sessionId === session.sessionId));
  return html`${table("Where you are signed in", ["Begun", "Last used", "Address", "Browser", "Actions"], rows)}
  ${all.length > 1 && button(request, { action: `${sessionsPath}/end-others`, button: "End all other sessions" })}`;
}

function sessionRow(request: SignedInRequest, line: SessionLine, isThis: boolean): Markup {
  const { sessionId, address, browser, createdAt, lastSeenAt } = line;
  const action = `${sessionsPath}/${sessionId}/end`;
  const end = button(request, { action, button: "End" }, `the session from ${address}`);
  return html`<tr>
    <th scope="row">${instant(createdAt)}</th>
    <td>${instant(lastSeenAt)}</td>
    <td>${address}</td>
    <td>${browser}</td>
    <td>${isThis ? "this session" : end}</td>
  </tr>`;
}

async function endOne({ pool }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { personId } = request.visitor.person;
  const target = request.parameters["sessionId"] ?? "";
  if (!isUuid(target)) throw new Problem("not-found");
  await inTransaction(pool, async (db) => {
    if (!(await deleteSession(db, personId, target))) throw new Problem("not-found");
    await recordAudit(db, actorOf(request), { action: "session.end", target });
  });
  return redirect(sessionsPath, "The session has ended.");
}

async function endOthers({ pool }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { person, session } = request.visitor;
  await inTransaction(pool, async (db) => {
    const endedSessions = await deleteOtherSessions(db, person.personId, session.sessionId);
    await recordAudit(db, actorOf(request), {
      action: "session.end",
      target: person.personId,
      after: { endedSessions },
    });
  });
  return redirect(sessionsPath, "All your other sessions have ended.");
}
