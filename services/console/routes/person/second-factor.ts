import { inTransaction, type Queryable } from "#shared/stores/postgres.ts";
import { button, form, input } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { noteFailure } from "../../sign-in/note-failure.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import type { Parts } from "../../parts.ts";
import { currentPasswordField } from "../../html/password-fields.ts";
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
import { note, whoOf } from "../../trail.ts";

const title = "Second factor";
const wrongCode = "This code is wrong or was used before. Wait for the next one.";

/** Setting up and removing the second factor. */
export function secondFactorRoutes(parts: Parts): Route[] {
  return [
    personRoute(get(path), async (asked) => page(title, show(parts, asked))),
    personRoute(post(`${path}/begin`), (asked) => begin(parts, asked)),
    personRoute({ ...post(`${path}/confirm`), isGuessable: true }, (asked) => confirm(parts, asked)),
    personRoute({ ...post(`${path}/recovery-codes`), isGuessable: true }, (asked) => renewCodes(parts, asked)),
    personRoute({ ...post(`${path}/remove`), isGuessable: true }, (asked) => remove(parts, asked)),
  ];
}

const codeField = (asked: SignedIn, label = "Code"): Markup =>
  input(asked.form, { name: "code", label, autocomplete: "one-time-code", most: 40 });

const later = html`<p><a href="/">Later</a>: nothing depends on it now, and your profile leads here.</p>`;

function show(parts: Parts, asked: SignedIn): Markup {
  const { box } = parts;
  const { personId, email, totpSecret, totpPending } = asked.visitor.person;
  if (totpSecret !== null) return manage(asked);
  const wayOut = !owesSecondFactor(parts, asked.visitor.person) && later;
  if (totpPending === null) {
    return html`<p>With a second factor, signing in takes your password and a code from an app on your phone.</p>
      ${button(asked, { action: `${path}/begin`, button: "Set up" })} ${wayOut}`;
  }
  const secret = box.open(totpPending, personId);
  return html`<p>
      Read this code with an authenticator app, or type the key <code>${secretInWords(secret)}</code> into it. Then give
      the six digits that the app shows.
    </p>
    ${qrOf(secret, email)}
    ${form(
      asked,
      { action: `${path}/confirm`, button: "Confirm" },
      html`${codeField(asked)}${currentPasswordField(asked.form)}`,
    )}
    ${wayOut}`;
}

function manage(asked: SignedIn): Markup {
  const fields = html`${codeField(asked, "Code, or a recovery code")}${currentPasswordField(asked.form)}
    <p><button>Make new recovery codes</button> The old ones are of no use any more then.</p>`;
  const removal = { action: `${path}/recovery-codes`, button: "Remove the second factor", isDanger: true };
  return html`<p>Your second factor is set up. Everything here takes a code and your password.</p>
    ${form(asked, { ...removal, buttonAction: `${path}/remove` }, fields)}`;
}

async function begin({ pool, box }: Parts, asked: SignedIn): Promise<Answer> {
  const { personId, totpSecret } = asked.visitor.person;
  if (totpSecret !== null) throw new Problem("refused");
  await setPendingSecret(pool, personId, box.seal(createTotpSecret(), personId));
  return redirect(path);
}

async function confirm(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { pool, box, clock } = parts;
  const { personId } = asked.visitor.person;
  if (!(await isOwnPassword(parts, asked))) return again(title, show(parts, asked));
  const done = await inTransaction(pool, async (db) => {
    const person = await lockPerson(db, personId);
    if (!person || person.totpPending === null || person.totpSecret !== null) throw new Problem("refused");
    const secret = box.open(person.totpPending, personId);
    const step = stepOfCode(secret, asked.form.typed("code").replaceAll(" ", ""), clock.nowMs());
    if (step === undefined) return undefined;
    await confirmSecret(db, personId, step);
    await note(db, whoOf(asked), { action: "second-factor.set", target: personId });
    return changed(db, asked);
  });
  if (done) return showCodes(done);
  asked.form.refuse("code", wrongCode);
  return again(title, show(parts, asked));
}

type Changed = { codes: string[]; sessionToken: string };

/** New recovery codes; other sessions end, and this one goes on under another token. */
async function changed(db: Queryable, asked: SignedIn): Promise<Changed> {
  const { person, session } = asked.visitor;
  const codes = createRecoveryCodes();
  const hashes = codes.map(hashRecoveryCode).filter((codeHash) => codeHash !== undefined);
  await replaceRecoveryCodes(db, person.personId, hashes);
  await deleteOtherSessions(db, person.personId, session.sessionId);
  return { codes, sessionToken: await renewSession(db, asked) };
}

function showCodes({ codes, sessionToken }: Changed): Answer {
  const body = html`<p class="problems">
      Keep these recovery codes where your phone is not. Each one signs you in once when you cannot use the app. They
      are shown this once.
    </p>
    <ul class="codes">
      ${codes.map((code) => html`<li><code>${code}</code></li>`)}
    </ul>
    <p><a href="/profile">I have kept them: back to my profile</a></p>`;
  return page("Recovery codes", body, { sessionToken });
}

/** Takes password and code; undefined when the form says what is wrong. Both must be right for anything to change. */
async function withBoth<T>(parts: Parts, asked: SignedIn, work: (db: Queryable) => Promise<T>): Promise<T | undefined> {
  const { personId, email } = asked.visitor.person;
  if (!(await isOwnPassword(parts, asked))) return undefined;
  const done = await inTransaction(parts.pool, async (db) => {
    const person = await lockPerson(db, personId);
    if (!person || !(await takeCode(parts, db, person, asked.form.typed("code")))) return undefined;
    return { result: await work(db) };
  });
  if (done) return done.result;
  await noteFailure(parts, asked, email);
  return asked.form.refuse("code", wrongCode);
}

async function renewCodes(parts: Parts, asked: SignedIn): Promise<Answer> {
  const done = await withBoth(parts, asked, async (db) => {
    const { personId } = asked.visitor.person;
    await note(db, whoOf(asked), { action: "second-factor.recovery-codes", target: personId });
    return changed(db, asked);
  });
  return done ? showCodes(done) : again(title, show(parts, asked));
}

async function remove(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { person, session } = asked.visitor;
  const { personId } = person;
  const sessionToken = await withBoth(parts, asked, async (db) => {
    await removeSecret(db, personId);
    await deleteOtherSessions(db, personId, session.sessionId);
    await note(db, whoOf(asked), { action: "second-factor.remove", target: personId });
    return renewSession(db, asked);
  });
  if (sessionToken === undefined) return again(title, show(parts, asked));
  return { ...redirect("/profile", "Your second factor is removed."), sessionToken };
}
