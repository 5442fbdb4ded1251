import { inTransaction } from "#shared/stores/postgres.ts";
import { isUuid } from "../../ids.ts";
import { button, figure, form, instant, table } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import type { Parts } from "../../parts.ts";
import { currentPasswordField, newPasswordFields } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  page,
  personRoute,
  post,
  redirect,
  type Answer,
  type Route,
  type SignedIn,
} from "../../html/route.ts";
import { endResets, findLastReset } from "../../store/password-resets.ts";
import { setPasswordHash } from "../../store/people.ts";
import { countRecoveryCodes } from "../../store/second-factor.ts";
import { deleteOtherSessions, deleteSession, listSessions, type SessionLine } from "../../store/sessions.ts";
import { note, whoOf } from "../../trail.ts";

const sessionsPath = "/profile/sessions";
const passwordTitle = "Change password";

/** A person's own password and sessions. */
export function profileRoutes(parts: Parts): Route[] {
  return [
    personRoute(get("/profile"), async (asked) => page("My profile", await profile(parts, asked))),
    personRoute(get("/profile/password"), async (asked) => page(passwordTitle, passwordForm(asked))),
    personRoute({ ...post("/profile/password"), isGuessable: true }, (asked) => changePassword(parts, asked)),
    personRoute(get(sessionsPath), async (asked) => page("Sessions", await sessions(parts, asked))),
    personRoute(post(`${sessionsPath}/end-others`), (asked) => endOthers(parts, asked)),
    personRoute(post(`${sessionsPath}/:sessionId/end`), (asked) => endOne(parts, asked)),
  ];
}

async function profile({ pool, oidc }: Parts, { visitor }: SignedIn): Promise<Markup> {
  const { personId, email, totpSecret, isOperator } = visitor.person;
  const codes = totpSecret === null ? 0 : await countRecoveryCodes(pool, personId);
  const reset = await findLastReset(pool, personId);
  const factor = totpSecret === null ? "not set up" : `set up; ${codes} recovery codes are left`;
  return html`<dl>
      ${figure("E-mail address", email)} ${figure("Second factor", factor)}
      ${figure("Operator", isOperator ? "yes" : "no")}
      ${
        reset &&
        figure("Last reset of the password", html`${instant(reset.usedAt)}, with a link that ${reset.madeBy} made`)
      }
    </dl>
    <ul>
      <li><a href="/profile/password">Change password</a></li>
      <li><a href="/profile/second-factor">${totpSecret === null ? "Set up a second factor" : "Second factor"}</a></li>
      ${oidc && html`<li><a href="/profile/identities">Sign-in with ${oidc.name}</a></li>`}
      <li><a href="${sessionsPath}">Sessions</a></li>
    </ul>`;
}

function passwordForm(asked: SignedIn): Markup {
  return form(
    asked,
    { action: "/profile/password", button: passwordTitle },
    html`<p>All your other sessions end.</p>
      ${currentPasswordField(asked.form)}${newPasswordFields(asked.form)}`,
  );
}

async function changePassword(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { pool, passwords } = parts;
  const { person, session } = asked.visitor;
  const { personId } = person;
  const password = readNewPassword(asked.form, person.email);
  if (password === undefined || !(await isOwnPassword(parts, asked))) return again(passwordTitle, passwordForm(asked));
  const passwordHash = await passwords.hash(password);
  const sessionToken = await inTransaction(pool, async (db) => {
    await setPasswordHash(db, personId, passwordHash);
    await endResets(db, personId);
    const endedSessions = await deleteOtherSessions(db, personId, session.sessionId);
    await note(db, whoOf(asked), { action: "password.change", target: personId, after: { endedSessions } });
    return renewSession(db, asked);
  });
  return { ...redirect("/profile", "Your password is changed, and your other sessions have ended."), sessionToken };
}

async function sessions({ pool }: Parts, asked: SignedIn): Promise<Markup> {
  const { person, session } = asked.visitor;
  const all = await listSessions(pool, person.personId);
  const rows = all.map((line) => sessionRow(asked, line, line.sessionId === session.sessionId));
  return html`${table("Where you are signed in", ["Begun", "Last used", "Address", "Browser", "Actions"], rows)}
  ${all.length > 1 && button(asked, { action: `${sessionsPath}/end-others`, button: "End all other sessions" })}`;
}

function sessionRow(asked: SignedIn, line: SessionLine, isThis: boolean): Markup {
  const { sessionId, address, browser, createdAt, lastSeenAt } = line;
  const action = `${sessionsPath}/${sessionId}/end`;
  const end = button(asked, { action, button: "End" }, `the session from ${address}`);
  return html`<tr>
    <th scope="row">${instant(createdAt)}</th>
    <td>${instant(lastSeenAt)}</td>
    <td>${address}</td>
    <td>${browser}</td>
    <td>${isThis ? "this session" : end}</td>
  </tr>`;
}

async function endOne({ pool }: Parts, asked: SignedIn): Promise<Answer> {
  const { personId } = asked.visitor.person;
  const target = asked.parameters["sessionId"] ?? "";
  if (!isUuid(target)) throw new Problem("not-found");
  await inTransaction(pool, async (db) => {
    if (!(await deleteSession(db, personId, target))) throw new Problem("not-found");
    await note(db, whoOf(asked), { action: "session.end", target });
  });
  return redirect(sessionsPath, "The session has ended.");
}

async function endOthers({ pool }: Parts, asked: SignedIn): Promise<Answer> {
  const { person, session } = asked.visitor;
  await inTransaction(pool, async (db) => {
    const endedSessions = await deleteOtherSessions(db, person.personId, session.sessionId);
    await note(db, whoOf(asked), { action: "session.end", target: person.personId, after: { endedSessions } });
  });
  return redirect(sessionsPath, "All your other sessions have ended.");
}
