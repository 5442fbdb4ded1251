import { inTransaction } from "#shared/stores/postgres.ts";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Oidc } from "../../credentials/oidc.ts";
import type { Deps } from "../../deps.ts";
import { form, instant } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { currentPasswordField } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, personRoute, post, redirect } from "../../html/route.ts";
import type { PageResponse, Route, SignedInRequest } from "../../html/route.ts";
import { configuredIssuer, leaveForIssuer } from "../../sign-in/at-issuer.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import { troubles } from "../../sign-in/sign-in-messages.ts";
import { deleteIdentity, insertIdentity, listIdentities, type Identity } from "../../store/identities.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import { firstPasswordPath } from "./first-password.ts";

/** Where a person sees what is linked. */
export const identitiesPath = "/profile/identities";
const path = identitiesPath;
const title = "Sign-in elsewhere";

/** What is linked to a person at an issuer of OpenID Connect; here only a signed-in person makes a link. */
export function identityRoutes(deps: Deps): Route[] {
  return [
    personRoute(get(path), async (request) => page(title, await show(deps, request))),
    personRoute({ ...post(`${path}/link`), isGuessable: true }, (request) => beginLink(deps, request)),
    personRoute(post(`${path}/unlink`), (request) => unlink(deps, request)),
  ];
}

async function show({ pool, oidc }: Deps, request: SignedInRequest): Promise<Markup> {
  const identities = await listIdentities(pool, request.visitor.person.personId);
  const linked = identities.map(({ issuer, subject, linkedAt }) => {
    const fields = html`<input type="hidden" name="issuer" value="${issuer}" />`;
    return html`<h2>${nameOf(oidc, issuer)}</h2>
      <p>Linked on ${instant(linkedAt)}, as <code>${subject}</code> of ${issuer}.</p>
      ${form(request, { action: `${path}/unlink`, button: "Unlink", isDanger: true }, fields)}`;
  });
  const isLinked = identities.some(({ issuer }) => oidc?.isOf(issuer));
  const intro = html`<p>
    Your password, and your second factor if you have one, are as they are. Who can sign in there as you can sign in
    here with what you link.
  </p>`;
  const sent = { action: `${path}/link`, button: `Link ${oidc?.name ?? ""}` };
  return html`${intro}${linked}${oidc && !isLinked && form(request, sent, currentPasswordField(request.form))}
  ${!oidc && linked.length === 0 && html`<p>It is not configured for this console.</p>`}`;
}

const nameOf = (oidc: Oidc | undefined, issuer: string): string => (oidc?.isOf(issuer) ? oidc.name : issuer);

async function beginLink(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const oidc = configuredIssuer(deps);
  if (!(await isOwnPassword(deps, request))) return again(title, await show(deps, request));
  const errand = { purpose: { kind: "link" }, sessionId: request.visitor.session.sessionId, next: path } as const;
  return (await leaveForIssuer(deps, request, errand)) ?? redirect(path, troubles.away(oidc.name));
}

/** Links the identity to the person of the session that began it. */
export async function linkIdentity(deps: Deps, request: SignedInRequest, identity: Identity): Promise<PageResponse> {
  const { name } = configuredIssuer(deps);
  const { personId } = request.visitor.person;
  const sessionToken = await inTransaction(deps.pool, async (db) => {
    if (!(await insertIdentity(db, { ...identity, personId }))) return undefined;
    await recordAudit(db, actorOf(request), { action: "identity.link", target: personId, after: identity });
    return renewSession(db, request);
  });
  if (sessionToken !== undefined) {
    return { ...redirect(path, `You can sign in with ${name} from now on.`), sessionToken };
  }
  return redirect(path, `This account of ${name} is linked already: here, or to somebody else. Nothing was changed.`);
}

/** Other sessions end: somebody may have signed in with what is linked no more. */
async function unlink({ pool, oidc }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { person, session } = request.visitor;
  const { personId } = person;
  const issuer = request.form.exact("issuer");
  // It is the only way in.
  if (!person.hasPassword) return redirect(firstPasswordPath, "Set a password first: you could not sign in any more.");
  const sessionToken = await inTransaction(pool, async (db) => {
    const before = await deleteIdentity(db, personId, issuer);
    if (!before) throw new Problem("refused");
    const endedSessions = await deleteOtherSessions(db, personId, session.sessionId);
    await recordAudit(db, actorOf(request), {
      action: "identity.unlink",
      target: personId,
      before,
      after: { endedSessions },
    });
    return renewSession(db, request);
  });
  return {
    ...redirect(path, `${nameOf(oidc, issuer)} is unlinked, and your other sessions have ended.`),
    sessionToken,
  };
}
