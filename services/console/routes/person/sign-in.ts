import { inTransaction } from "#shared/stores/postgres.ts";
import { emailField, form, input } from "../../html/controls.ts";
import { finishSignIn, passFirstFactor } from "../../sign-in/finish-sign-in.ts";
import { mostPassword } from "../../html/form.ts";
import { safeNext } from "../../http/guard.ts";
import { html, type Markup } from "../../html/html.ts";
import { noteFailure } from "../../sign-in/note-failure.ts";
import type { Parts } from "../../parts.ts";
import { again, get, halfRoute, page, personRoute, post, publicRoute, redirect } from "../../html/route.ts";
import type { Answer, Asked, Route, SignedIn } from "../../html/route.ts";
import { takeCode } from "../../sign-in/second-factor.ts";
import { signInNote } from "../../sign-in/sign-in-notes.ts";
import { findPersonByEmail, replacePasswordHash } from "../../store/people.ts";
import { deleteSession } from "../../store/sessions.ts";
import { note, whoOf } from "../../trail.ts";

/** One sentence for every cause: nobody learns from it whether an address is known here, or is locked. */
const refusal =
  "The address or the password is wrong, or there were too many attempts. Check both, or try again in 15 minutes.";
const codeRefusal = "This code is wrong or was used before. Wait for the next one, or give a recovery code.";

/** Sign-in with password and second factor, and sign-out. */
export function signInRoutes(parts: Parts): Route[] {
  return [
    publicRoute(get("/sign-in"), async (asked) => {
      if (asked.visitor?.session.isComplete) return redirect(safeNext(asked.query("next")));
      const note = signInNote(asked.query("note"), parts.oidc?.name);
      return page("Sign in", html`${note}${signInForm(parts, asked, asked.query("next"))}`);
    }),
    publicRoute({ ...post("/sign-in"), isGuessable: true }, (asked) => signIn(parts, asked)),
    halfRoute(get("/sign-in/second-factor"), async (asked) =>
      page("Second factor", codeForm(asked, asked.query("next"))),
    ),
    halfRoute({ ...post("/sign-in/second-factor"), isGuessable: true }, (asked) => giveCode(parts, asked)),
    personRoute(post("/sign-out"), async (asked) => {
      const { personId } = asked.visitor.person;
      await inTransaction(parts.pool, async (db) => {
        await deleteSession(db, personId, asked.visitor.session.sessionId);
        await note(db, whoOf(asked), { action: "sign-out", target: personId });
      });
      return { ...redirect("/sign-in?note=signed-out"), clearCookie: true };
    }),
  ];
}

function signInForm({ oidc }: Parts, asked: Asked, next: string): Markup {
  const hidden = html`<input type="hidden" name="next" value="${safeNext(next)}" />`;
  const password = form(
    asked,
    { action: "/sign-in", button: "Sign in" },
    html`${hidden} ${emailField(asked.form, "username")}
    ${input(asked.form, {
      name: "password",
      label: "Password",
      type: "password",
      autocomplete: "current-password",
      most: mostPassword,
    })}`,
  );
  return html`${password}
  ${oidc && form(asked, { action: "/sign-in/oidc", button: `Sign in with ${oidc.name}` }, hidden)}`;
}

function codeForm(asked: Asked, next: string): Markup {
  return form(
    asked,
    { action: "/sign-in/second-factor", button: "Continue" },
    html`<input type="hidden" name="next" value="${safeNext(next)}" /> ${input(asked.form, {
        name: "code",
        label: "Code",
        hint: "The six digits that your authenticator app shows, or one of your recovery codes.",
        autocomplete: "one-time-code",
        most: 40,
      })}`,
  );
}

async function signIn(parts: Parts, asked: Asked): Promise<Answer> {
  const { pool, passwords } = parts;
  const email = asked.form.typed("email").normalize("NFC").toLowerCase().slice(0, 254);
  const password = asked.form.exact("password").slice(0, mostPassword + 1);
  const person = await findPersonByEmail(pool, email);
  const isRight = await passwords.verify(person?.passwordHash, password);
  if (!person || !isRight || person.status !== "active" || person.isLocked) {
    // Whatever the cause: the time it takes tells nothing either.
    await noteFailure(parts, asked, email);
    return refuseSignIn(parts, asked);
  }
  let { passwordHash } = person;
  if (passwords.isOutdated(passwordHash)) {
    passwordHash = await passwords.hash(password);
    if (!(await replacePasswordHash(pool, person, passwordHash))) return refuseSignIn(parts, asked);
  }
  const shown = { person: { ...person, passwordHash }, issuer: null, next: safeNext(asked.form.typed("next")) };
  return (await passFirstFactor(parts, asked, shown)) ?? refuseSignIn(parts, asked);
}

function refuseSignIn(parts: Parts, asked: Asked): Answer {
  parts.metrics.signIns.inc({ outcome: "refused" });
  asked.form.refuse("email", refusal);
  return again("Sign in", signInForm(parts, asked, asked.form.typed("next")));
}

async function giveCode(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { pool } = parts;
  const { person, session } = asked.visitor;
  if (person.isLocked) return endHalf(parts, asked);
  const taken = await inTransaction(pool, async (db) => {
    const kind = await takeCode(parts, db, person, asked.form.typed("code"));
    const who = whoOf(asked);
    if (kind === "recovery") {
      await note(db, who, { action: "second-factor.recovery-code-used", target: person.personId });
    }
    return kind;
  });
  if (taken !== undefined) {
    const shown = { person, issuer: session.issuer, next: safeNext(asked.form.typed("next")) };
    return (await finishSignIn(parts, asked, shown)) ?? refuseSignIn(parts, asked);
  }
  parts.metrics.signIns.inc({ outcome: "refused" });
  await noteFailure(parts, asked, person.email);
  asked.form.refuse("code", codeRefusal);
  return again("Second factor", codeForm(asked, asked.form.typed("next")));
}

async function endHalf(parts: Parts, asked: SignedIn): Promise<Answer> {
  const { person, session } = asked.visitor;
  await deleteSession(parts.pool, person.personId, session.sessionId);
  return { ...redirect("/sign-in"), clearCookie: true };
}
