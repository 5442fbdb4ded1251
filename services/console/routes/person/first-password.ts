import { inTransaction } from "#shared/stores/postgres.ts";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { form } from "../../html/controls.ts";
import { readNewPassword } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { newPasswordFields } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, personRoute, post, redirect } from "../../html/route.ts";
import type { PageResponse, Route, SignedInRequest } from "../../html/route.ts";
import { configuredIssuer, leaveForIssuer } from "../../sign-in/at-issuer.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import { troubles } from "../../sign-in/sign-in-messages.ts";
import { findPersonByIdentity, type Identity } from "../../store/identities.ts";
import { lockPerson, setPasswordHash } from "../../store/people.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";

/** Where somebody who came by an issuer sets a password. */
export const firstPasswordPath = "/profile/first-password";
const title = "Set a password";

/** A first password, for whoever has none: it takes a new sign-in at the issuer, as a change takes the password. */
export function firstPasswordRoutes(deps: Deps): Route[] {
  return [
    personRoute(get(firstPasswordPath), async (request) =>
      request.visitor.person.hasPassword ? redirect("/profile/password") : page(title, show(deps, request)),
    ),
    personRoute({ ...post(firstPasswordPath), isGuessable: true }, (request) => leave(deps, request)),
  ];
}

function show(deps: Deps, request: SignedInRequest): Markup {
  const { name } = configuredIssuer(deps);
  return html`<p>
      You have no password here yet: you sign in with ${name}. With one you can set up a second factor, too. To show
      that it is you, sign in at ${name} once more.
    </p>
    ${form(
      request,
      { action: firstPasswordPath, button: `Continue to ${name}` },
      html`<input type="hidden" autocomplete="username" value="${request.visitor.person.email}" />${newPasswordFields(
          request.form,
        )}`,
    )}`;
}

async function leave(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { person, session } = request.visitor;
  if (person.hasPassword) throw new Problem("refused");
  const password = readNewPassword(request.form, person.email);
  if (password === undefined) return again(title, show(deps, request));
  const purpose = { kind: "password", passwordHash: await deps.passwords.hash(password) } as const;
  const errand = { purpose, sessionId: session.sessionId, next: firstPasswordPath };
  const away = (): PageResponse => redirect(firstPasswordPath, troubles.away(configuredIssuer(deps).name));
  return (await leaveForIssuer(deps, request, errand)) ?? away();
}

/** Back from the issuer, which has just seen the person of this session: the password counts from now on. */
export async function setFirstPassword(
  { pool, oidc }: Deps,
  request: SignedInRequest,
  { identity, passwordHash }: { identity: Identity; passwordHash: string },
): Promise<PageResponse> {
  const { person, session } = request.visitor;
  const { personId } = person;
  const sessionToken = await inTransaction(pool, async (db) => {
    const seen = await findPersonByIdentity(db, identity);
    const now = await lockPerson(db, personId);
    if (seen?.personId !== personId || now === undefined || now.hasPassword) return undefined;
    await setPasswordHash(db, personId, passwordHash);
    const endedSessions = await deleteOtherSessions(db, personId, session.sessionId);
    const after = { endedSessions, by: identity.issuer };
    await recordAudit(db, actorOf(request), { action: "password.change", target: personId, after });
    return renewSession(db, request);
  });
  if (sessionToken === undefined) return redirect(firstPasswordPath, troubles.failed(oidc?.name ?? ""));
  return { ...redirect("/profile", "Your password is set, and your other sessions have ended."), sessionToken };
}
