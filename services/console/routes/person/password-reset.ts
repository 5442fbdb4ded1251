import { inTransaction } from "#shared/stores/postgres.ts";
import { form } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { endPresented } from "../../sign-in/open-session.ts";
import type { Parts } from "../../parts.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import {
  again,
  get,
  page,
  post,
  publicRoute,
  redirect,
  type Answer,
  type Asked,
  type Route,
} from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { deleteIdentities } from "../../store/identities.ts";
import { findReset, takeReset, type PasswordReset } from "../../store/password-resets.ts";
import { lockPerson, setPasswordHash } from "../../store/people.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import { note } from "../../trail.ts";

const url = "/password-resets/:token";
const title = "New password";

/** Setting a new password with the link that an operator has made. */
export function passwordResetRoutes(parts: Parts): Route[] {
  return [
    publicRoute({ ...get(url), isGuessable: true }, async (asked) => {
      const reset = await findReset(parts.pool, tokenHashOf(asked));
      return reset ? page(title, show(asked, reset)) : gone();
    }),
    publicRoute({ ...post(url), isGuessable: true }, (asked) => setPassword(parts, asked)),
  ];
}

const tokenHashOf = ({ parameters }: Asked): Buffer => hashToken(parameters["token"] ?? "");

function gone(): Answer {
  const text = "This link was used, a later one took its place, or it is too old. Ask your operator for another one.";
  return page(title, html`<p>${text}</p>`, { status: 404 });
}

function show(asked: Asked, { email, madeBy }: PasswordReset): Markup {
  return html`<p>
      Set a new password for ${email}. ${madeBy} has made this link. All sessions of ${email} end, and links to other
      sign-ins, too; the second factor stays.
    </p>
    ${form(
      asked,
      { action: asked.path, button: "Set the password" },
      html`<input type="hidden" autocomplete="username" value="${email}" />${newPasswordFields(asked.form)}`,
    )}`;
}

async function setPassword({ pool, passwords }: Parts, asked: Asked): Promise<Answer> {
  const reset = await findReset(pool, tokenHashOf(asked));
  if (!reset) return gone();
  const password = readNewPassword(asked.form, reset.email);
  if (password === undefined) return again(title, show(asked, reset));
  const passwordHash = await passwords.hash(password);
  const isTaken = await inTransaction(pool, async (db) => {
    // The person first, as whoever stops one or makes another link.
    await lockPerson(db, reset.personId);
    const taken = await takeReset(db, tokenHashOf(asked));
    if (!taken) return false;
    await resetPerson(db, asked, taken, passwordHash);
    return true;
  });
  return isTaken ? { ...redirect("/sign-in?note=password-reset"), clearCookie: true } : gone();
}

// Whoever had taken the person over is out, also who has linked a sign-in elsewhere to come back.
async function resetPerson(
  db: Parameters<typeof setPasswordHash>[0],
  asked: Asked,
  { personId, email, madeBy }: PasswordReset,
  passwordHash: string,
): Promise<void> {
  await setPasswordHash(db, personId, passwordHash);
  await endPresented(db, asked);
  const endedSessions = await deleteOtherSessions(db, personId);
  const unlinked = await deleteIdentities(db, personId);
  const after = { email, link: "used", madeBy, endedSessions, unlinked };
  await note(db, { personId, email, address: asked.address }, { action: "password.reset", target: personId, after });
}
