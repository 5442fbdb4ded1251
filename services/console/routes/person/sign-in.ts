import { inTransaction } from "#shared/stores/postgres.ts";
import { emailField, form, input } from "../../html/controls.ts";
import { finishSignIn, passFirstFactor } from "../../sign-in/finish-sign-in.ts";
import { maxPassword } from "../../html/form.ts";
import { safeNext } from "../../http/guard.ts";
import { html, type Markup } from "../../html/html.ts";
import { recordFailure } from "../../sign-in/record-failure.ts";
import type { Deps } from "../../deps.ts";
import { again, get, halfRoute, page, personRoute, post, publicRoute, redirect } from "../../html/route.ts";
import type { PageResponse, PageRequest, Route, SignedInRequest } from "../../html/route.ts";
import { takeCode } from "../../sign-in/second-factor.ts";
import { signInMessage } from "../../sign-in/sign-in-messages.ts";
import { findPersonByEmail, replacePasswordHash } from "../../store/people.ts";
import { deleteSession } from "../../store/sessions.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";

/** One sentence for every cause: nobody learns from it whether an address is known here, or is locked. */
const refusal =
  "The address or the password is wrong, or there were too many attempts. Check both, or try again in 15 minutes.";
const codeRefusal = "This code is wrong or was used before. Wait for the next one, or give a recovery code.";

/** Sign-in with password and second factor, and sign-out. */
export function signInRoutes(deps: Deps): Route[] {
  return [
    publicRoute(get("/sign-in"), async (request) => {
      if (request.visitor?.session.isComplete) return redirect(safeNext(request.query("next")));
      const note = signInMessage(request.query("note"), deps.oidc?.name);
      return page("Sign in", html`${note}${signInForm(deps, request, request.query("next"))}`);
    }),
    publicRoute({ ...post("/sign-in"), isGuessable: true }, (request) => signIn(deps, request)),
    halfRoute(get("/sign-in/second-factor"), async (request) =>
      page("Second factor", codeForm(request, request.query("next"))),
    ),
    halfRoute({ ...post("/sign-in/second-factor"), isGuessable: true }, (request) => giveCode(deps, request)),
    personRoute(post("/sign-out"), async (request) => {
      const { personId } = request.visitor.person;
      await inTransaction(deps.pool, async (db) => {
        await deleteSession(db, personId, request.visitor.session.sessionId);
        await recordAudit(db, actorOf(request), { action: "sign-out", target: personId });
      });
      return { ...redirect("/sign-in?note=signed-out"), clearCookie: true };
    }),
  ];
}

function signInForm({ oidc }: Deps, request: PageRequest, next: string): Markup {
  const hidden = html`<input type="hidden" name="next" value="${safeNext(next)}" />`;
  const password = form(
    request,
    { action: "/sign-in", button: "Sign in" },
    html`${hidden} ${emailField(request.form, "username")}
    ${input(request.form, {
      name: "password",
      label: "Password",
      type: "password",
      autocomplete: "current-password",
      maxLength: maxPassword,
    })}`,
  );
  return html`${password}
  ${oidc && form(request, { action: "/sign-in/oidc", button: `Sign in with ${oidc.name}` }, hidden)}`;
}

function codeForm(request: PageRequest, next: string): Markup {
  return form(
    request,
    { action: "/sign-in/second-factor", button: "Continue" },
    html`<input type="hidden" name="next" value="${safeNext(next)}" /> ${input(request.form, {
        name: "code",
        label: "Code",
        hint: "The six digits that your authenticator app shows, or one of your recovery codes.",
        autocomplete: "one-time-code",
        maxLength: 40,
      })}`,
  );
}

async function signIn(deps: Deps, request: PageRequest): Promise<PageResponse> {
  const { pool, passwords } = deps;
  const email = request.form.typed("email").normalize("NFC").toLowerCase().slice(0, 254);
  const password = request.form.exact("password").slice(0, maxPassword + 1);
  const person = await findPersonByEmail(pool, email);
  const isRight = await passwords.verify(person?.passwordHash, password);
  if (!person || !isRight || person.status !== "active" || person.isLocked) {
    // Whatever the cause: the time it takes tells nothing either.
    await recordFailure(deps, request, email);
    return refuseSignIn(deps, request);
  }
  let { passwordHash } = person;
  if (passwords.isOutdated(passwordHash)) {
    passwordHash = await passwords.hash(password);
    if (!(await replacePasswordHash(pool, person, passwordHash))) return refuseSignIn(deps, request);
  }
  const shown = { person: { ...person, passwordHash }, issuer: null, next: safeNext(request.form.typed("next")) };
  return (await passFirstFactor(deps, request, shown)) ?? refuseSignIn(deps, request);
}

function refuseSignIn(deps: Deps, request: PageRequest): PageResponse {
  deps.metrics.signIns.inc({ outcome: "refused" });
  request.form.refuse("email", refusal);
  return again("Sign in", signInForm(deps, request, request.form.typed("next")));
}

async function giveCode(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { pool } = deps;
  const { person, session } = request.visitor;
  if (person.isLocked) return endHalf(deps, request);
  const taken = await inTransaction(pool, async (db) => {
    const kind = await takeCode(deps, db, person, request.form.typed("code"));
    const who = actorOf(request);
    if (kind === "recovery") {
      await recordAudit(db, who, { action: "second-factor.recovery-code-used", target: person.personId });
    }
    return kind;
  });
  if (taken !== undefined) {
    const shown = { person, issuer: session.issuer, next: safeNext(request.form.typed("next")) };
    return (await finishSignIn(deps, request, shown)) ?? refuseSignIn(deps, request);
  }
  deps.metrics.signIns.inc({ outcome: "refused" });
  await recordFailure(deps, request, person.email);
  request.form.refuse("code", codeRefusal);
  return again("Second factor", codeForm(request, request.form.typed("next")));
}

async function endHalf(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { person, session } = request.visitor;
  await deleteSession(deps.pool, person.personId, session.sessionId);
  return { ...redirect("/sign-in"), clearCookie: true };
}
