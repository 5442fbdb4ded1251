import { inTransaction } from "#shared/stores/postgres.ts";
import { form, instant } from "../../html/controls.ts";
import { passFirstFactor } from "../../sign-in/finish-sign-in.ts";
import { safeNext } from "../../http/guard.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Oidc, Secrets } from "../../credentials/oidc.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import type { Deps } from "../../deps.ts";
import { currentPasswordField } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, personRoute, post, publicRoute, redirect } from "../../html/route.ts";
import type { PageResponse, PageRequest, Route, SignedInRequest } from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { troubles } from "../../sign-in/sign-in-messages.ts";
import {
  deleteIdentity,
  findPersonByIdentity,
  insertAttempt,
  insertIdentity,
  listIdentities,
  takeAttempt,
  type Attempt,
  type Identity,
} from "../../store/identities.ts";
import { deleteOtherSessions } from "../../store/sessions.ts";
import { recordAudit, actorOf } from "../../audit-log.ts";

const path = "/profile/identities";
const title = "Sign-in elsewhere";

/** Sign-in through an issuer of OpenID Connect, and to whom it is linked: only a signed-in person makes a link. */
export function identityRoutes(deps: Deps): Route[] {
  return [
    publicRoute({ ...post("/sign-in/oidc"), isGuessable: true }, async (request) => {
      const next = safeNext(request.form.typed("next"));
      if (request.visitor?.session.isComplete) return redirect(next);
      return (await leave(deps, request, { sessionId: null, next })) ?? redirect("/sign-in?note=away");
    }),
    publicRoute({ ...get("/sign-in/oidc/callback"), isGuessable: true }, (request) => comeBack(deps, request)),
    personRoute(get(path), async (request) => page(title, await show(deps, request))),
    personRoute({ ...post(`${path}/link`), isGuessable: true }, (request) => beginLink(deps, request)),
    personRoute(post(`${path}/unlink`), (request) => unlink(deps, request)),
  ];
}

function configured({ oidc }: Deps): Oidc {
  if (!oidc) throw new Problem("not-found");
  return oidc;
}

/**
 * The page that leads to the issuer; undefined while it is away. It is a page and no redirect, for `form-action` counts
 * for every redirect after a form, and where an issuer sends a browser on to is not known here.
 */
async function leave(
  deps: Deps,
  request: PageRequest,
  purpose: Pick<Attempt, "sessionId" | "next">,
): Promise<PageResponse | undefined> {
  const oidc = configured(deps);
  const begun = await oidc.begin();
  if (!begun) return undefined;
  const { url, state, secrets } = begun;
  await insertAttempt(deps.pool, {
    ...purpose,
    stateHash: hashToken(state),
    browserHash: hashToken(request.browserSecret),
    sealed: deps.box.seal(Buffer.from(JSON.stringify(secrets)), state),
  });
  const body = html`<p>You are being redirected to ${oidc.name}. If not:</p>
    <p><a href="${url.href}">Continue to ${oidc.name}</a></p>`;
  return page(`On to ${oidc.name}`, body, { goesOnTo: url });
}

type SignInReturn = { attempt: Attempt; identity: Identity } | "stale" | "cancelled" | "away" | "failed";

/** Only the browser that began may come back, once: another one could else be signed in as whoever began. */
async function finishAttempt(deps: Deps, request: PageRequest): Promise<SignInReturn> {
  const state = request.query("state");
  if (state === "" || request.browserSecret === "") return "stale";
  const key = { stateHash: hashToken(state), browserHash: hashToken(request.browserSecret) };
  const attempt = await takeAttempt(deps.pool, key);
  if (!attempt) return "stale";
  if (attempt.sessionId !== null && !isOf(request, attempt.sessionId)) return "stale";
  const secrets = JSON.parse(deps.box.open(attempt.sealed, state).toString()) as Secrets;
  const brought = new URLSearchParams();
  for (const name of ["code", "state", "iss", "error"]) {
    if (request.query(name) !== "") brought.set(name, request.query(name));
  }
  const identity = await configured(deps).finish(brought, state, secrets);
  return typeof identity === "string" ? identity : { attempt, identity };
}

const isOf = ({ visitor }: PageRequest, sessionId: string): boolean =>
  visitor?.session.isComplete === true && visitor.session.sessionId === sessionId;

async function comeBack(deps: Deps, request: PageRequest): Promise<PageResponse> {
  const oidc = configured(deps);
  const back = await finishAttempt(deps, request);
  if (request.visitor?.session.isComplete) {
    const signedIn: SignedInRequest = { ...request, visitor: request.visitor };
    if (typeof back === "string") return redirect(path, troubles[back](oidc.name));
    if (back.attempt.sessionId !== null) return link(deps, signedIn, back.identity);
  }
  return typeof back === "string" ? refuse(deps, back) : signIn(deps, request, back);
}

function refuse({ metrics }: Deps, why: keyof typeof troubles): PageResponse {
  if (why !== "cancelled" && why !== "away") metrics.signIns.inc({ outcome: "refused" });
  return redirect(`/sign-in?note=${why}`);
}

type CompletedAttempt = { attempt: Attempt; identity: Identity };

async function signIn(
  deps: Deps,
  request: PageRequest,
  { attempt, identity }: CompletedAttempt,
): Promise<PageResponse> {
  const person = await findPersonByIdentity(deps.pool, identity);
  if (!person) return refuse(deps, "unknown");
  const shown = { person, issuer: identity.issuer, next: safeNext(attempt.next) };
  return (await passFirstFactor(deps, request, shown)) ?? refuse(deps, "refused");
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
  const oidc = configured(deps);
  if (!(await isOwnPassword(deps, request))) return again(title, await show(deps, request));
  const purpose = { sessionId: request.visitor.session.sessionId, next: path };
  return (await leave(deps, request, purpose)) ?? redirect(path, troubles.away(oidc.name));
}

async function link(deps: Deps, request: SignedInRequest, identity: Identity): Promise<PageResponse> {
  const { name } = configured(deps);
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
