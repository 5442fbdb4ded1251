import { inTransaction } from "#shared/stores/postgres.ts";
import { form } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { endPresented } from "../../sign-in/open-session.ts";
import type { Deps } from "../../deps.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import {
  again,
  get,
  page,
  post,
  publicRoute,
  redirect,
  type PageResponse,
  type PageRequest,
  type Route,
} from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { deleteIdentities } from "../../store/identities.ts";
import { findReset, takeReset, type PasswordReset } from "../../store/password-resets.ts";
import { lockPerson, setPasswordHash } from "../../store/people.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import { recordAudit } from "../../audit-log.ts";

const url = "/password-resets/:token";
const title = "New password";

/** Setting a new password with the link that an operator has made. */
export function passwordResetRoutes(deps: Deps): Route[] {
  return [
    publicRoute({ ...get(url), isGuessable: true }, async (request) => {
      const reset = await findReset(deps.pool, tokenHashOf(request));
      return reset ? page(title, show(request, reset)) : gone();
    }),
    publicRoute({ ...post(url), isGuessable: true }, (request) => setPassword(deps, request)),
  ];
}

const tokenHashOf = ({ parameters }: PageRequest): Buffer => hashToken(parameters["token"] ?? "");

function gone(): PageResponse {
  const text = "This link was used, a later one took its place, or it is too old. Ask your operator for another one.";
  return page(title, html`<p>${text}</p>`, { status: 404 });
}

function show(request: PageRequest, { email, madeBy }: PasswordReset): Markup {
  return html`<p>
      Set a new password for ${email}. ${madeBy} has made this link. All sessions of ${email} end, and links to other
      sign-ins, too; the second factor stays.
    </p>
    ${form(
      request,
      { action: request.path, button: "Set password" },
      html`<input type="hidden" autocomplete="username" value="${email}" />${newPasswordFields(request.form)}`,
    )}`;
}

async function setPassword({ pool, passwords }: Deps, request: PageRequest): Promise<PageResponse> {
  const reset = await findReset(pool, tokenHashOf(request));
  if (!reset) return gone();
  const password = readNewPassword(request.form, reset.email);
  if (password === undefined) return again(title, show(request, reset));
  const passwordHash = await passwords.hash(password);
  const isTaken = await inTransaction(pool, async (db) => {
    // The person first, as whoever stops one or makes another link.
    await lockPerson(db, reset.personId);
    const taken = await takeReset(db, tokenHashOf(request));
    if (!taken) return false;
    await resetPerson(db, request, taken, passwordHash);
    return true;
  });
  return isTaken ? { ...redirect("/sign-in?note=password-reset"), clearCookie: true } : gone();
}

// Whoever had taken the person over is out, also who has linked a sign-in elsewhere to come back.
async function resetPerson(
  db: Parameters<typeof setPasswordHash>[0],
  request: PageRequest,
  { personId, email, madeBy }: PasswordReset,
  passwordHash: string,
): Promise<void> {
  await setPasswordHash(db, personId, passwordHash);
  await endPresented(db, request);
  const endedSessions = await deleteOtherSessions(db, personId);
  const unlinked = await deleteIdentities(db, personId);
  const after = { email, link: "used", madeBy, endedSessions, unlinked };
  await recordAudit(
    db,
    { personId, email, address: request.address },
    { action: "password.reset", target: personId, after },
  );
}
