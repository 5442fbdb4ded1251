import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { button, form, input } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { recordFailure } from "../../sign-in/record-failure.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import type { Deps } from "../../deps.ts";
import { currentPasswordField } from "../../html/password-fields.ts";
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
import { secondFactorPath as path } from "../../html/layout.ts";
import { owesSecondFactor, takeCode } from "../../sign-in/second-factor.ts";
import { lockPerson } from "../../store/people.ts";
import { confirmSecret, removeSecret, replaceRecoveryCodes, setPendingSecret } from "../../store/second-factor.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import {
  createRecoveryCodes,
  createTotpSecret,
  hashRecoveryCode,
  qrOf,
  secretInWords,
  stepOfCode,
} from "../../credentials/totp.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";
import { firstPasswordPath } from "./first-password.ts";

const title = "Second factor";
const wrongCode = "This code is wrong or was used before. Wait for the next one.";

/** Setting up and removing the second factor. */
export function secondFactorRoutes(deps: Deps): Route[] {
  return [
    personRoute(get(path), async (request) =>
      request.visitor.person.hasPassword
        ? page(title, show(deps, request))
        : redirect(firstPasswordPath, "Set a password first, then the second factor."),
    ),
    personRoute(post(`${path}/begin`), (request) => begin(deps, request)),
    personRoute({ ...post(`${path}/confirm`), isGuessable: true }, (request) => confirm(deps, request)),
    personRoute({ ...post(`${path}/recovery-codes`), isGuessable: true }, (request) => renewCodes(deps, request)),
    personRoute({ ...post(`${path}/remove`), isGuessable: true }, (request) => remove(deps, request)),
  ];
}

const codeField = (request: SignedInRequest, label = "Code"): Markup =>
  input(request.form, { name: "code", label, autocomplete: "one-time-code", maxLength: 40 });

const later = html`<p><a href="/">Later</a>: it is optional now; you can set it up from your profile.</p>`;

function show(deps: Deps, request: SignedInRequest): Markup {
  const { box } = deps;
  const { personId, email, totpSecret, totpPending } = request.visitor.person;
  if (totpSecret !== null) return manage(request);
  const wayOut = !owesSecondFactor(deps, request.visitor.person) && later;
  if (totpPending === null) {
    return html`<p>With a second factor, signing in takes your password and a code from an app on your phone.</p>
      ${button(request, { action: `${path}/begin`, button: "Set up" })} ${wayOut}`;
  }
  const secret = box.open(totpPending, personId);
  return html`<p>
      Read this code with an authenticator app, or type the key <code>${secretInWords(secret)}</code> into it. Then give
      the six digits that the app shows.
    </p>
    ${qrOf(secret, email)}
    ${form(
      request,
      { action: `${path}/confirm`, button: "Confirm" },
      html`${codeField(request)}${currentPasswordField(request.form)}`,
    )}
    ${wayOut}`;
}

function manage(request: SignedInRequest): Markup {
  const fields = html`${codeField(request, "Code, or a recovery code")}${currentPasswordField(request.form)}
    <p><button>Create new recovery codes</button> The old ones stop working.</p>`;
  const removal = { action: `${path}/recovery-codes`, button: "Remove the second factor", isDanger: true };
  return html`<p>Your second factor is set up. Every change here requires a code and your password.</p>
    ${form(request, { ...removal, buttonAction: `${path}/remove` }, fields)}`;
}

async function begin({ pool, box }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { personId, totpSecret } = request.visitor.person;
  if (totpSecret !== null) throw new Problem("refused");
  await setPendingSecret(pool, personId, box.seal(createTotpSecret(), personId));
  return redirect(path);
}

async function confirm(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { pool, box, clock } = deps;
  const { personId } = request.visitor.person;
  if (!(await isOwnPassword(deps, request))) return again(title, show(deps, request));
  const done = await inTransaction(pool, async (db) => {
    const person = await lockPerson(db, personId);
    if (!person || person.totpPending === null || person.totpSecret !== null) throw new Problem("refused");
    const secret = box.open(person.totpPending, personId);
    const step = stepOfCode(secret, request.form.typed("code").replaceAll(" ", ""), clock.nowMs());
    if (step === undefined) return undefined;
    await confirmSecret(db, personId, step);
    await recordAudit(db, actorOf(request), { action: "second-factor.set", target: personId });
    return changed(db, request);
  });
  if (done) return showCodes(done);
  request.form.refuse("code", wrongCode);
  return again(title, show(deps, request));
}

type NewRecoveryCodes = { codes: string[]; sessionToken: string };

/** New recovery codes; other sessions end, and this one goes on under another token. */
async function changed(db: Queryable, request: SignedInRequest): Promise<NewRecoveryCodes> {
  const { person, session } = request.visitor;
  const codes = createRecoveryCodes();
  const hashes = codes.map(hashRecoveryCode).filter((codeHash) => codeHash !== undefined);
  await replaceRecoveryCodes(db, person.personId, hashes);
  await deleteOtherSessions(db, person.personId, session.sessionId);
  return { codes, sessionToken: await renewSession(db, request) };
}

function showCodes({ codes, sessionToken }: NewRecoveryCodes): PageResponse {
  const body = html`<p class="problems">
      Keep these recovery codes where your phone is not. Each one signs you in once when you cannot use the app. They
      are shown this once.
    </p>
    <ul class="codes">
      ${codes.map((code) => html`<li><code>${code}</code></li>`)}
    </ul>
    <p><a href="/profile">I have stored them: back to my profile</a></p>`;
  return page("Recovery codes", body, { sessionToken });
}

/** Takes password and code; undefined when the form says what is wrong. Both must be right for anything to change. */
async function withBoth<T>(
  deps: Deps,
  request: SignedInRequest,
  work: (db: Queryable) => Promise<T>,
): Promise<T | undefined> {
  const { personId, email } = request.visitor.person;
  if (!(await isOwnPassword(deps, request))) return undefined;
  const done = await inTransaction(deps.pool, async (db) => {
    const person = await lockPerson(db, personId);
    if (!person || !(await takeCode(deps, db, person, request.form.typed("code")))) return undefined;
    return { result: await work(db) };
  });
  if (done) return done.result;
  await recordFailure(deps, request, email);
  return request.form.refuse("code", wrongCode);
}

async function renewCodes(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const done = await withBoth(deps, request, async (db) => {
    const { personId } = request.visitor.person;
    await recordAudit(db, actorOf(request), { action: "second-factor.recovery-codes", target: personId });
    return changed(db, request);
  });
  return done ? showCodes(done) : again(title, show(deps, request));
}

async function remove(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { person, session } = request.visitor;
  const { personId } = person;
  const sessionToken = await withBoth(deps, request, async (db) => {
    await removeSecret(db, personId);
    await deleteOtherSessions(db, personId, session.sessionId);
    await recordAudit(db, actorOf(request), { action: "second-factor.remove", target: personId });
    return renewSession(db, request);
  });
  if (sessionToken === undefined) return again(title, show(deps, request));
  return { ...redirect("/profile", "Your second factor is removed."), sessionToken };
}
