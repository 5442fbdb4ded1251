import { inTransaction } from "#shared/stores/postgres.ts";
import { form, instant } from "../../html/controls.ts";
import { passFirstFactor } from "../../sign-in/finish-sign-in.ts";
import { safeNext } from "../../http/guard.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Oidc, Secrets } from "../../credentials/oidc.ts";
import { renewSession } from "../../sign-in/open-session.ts";
import { isOwnPassword } from "../../sign-in/own-password.ts";
import type { Parts } from "../../parts.ts";
import { currentPasswordField } from "../../html/password-fields.ts";
import { Problem } from "../../html/problem.ts";
import { again, get, page, personRoute, post, publicRoute, redirect } from "../../html/route.ts";
import type { Answer, Asked, Route, SignedIn } from "../../html/route.ts";
import { hashToken } from "../../credentials/secrets.ts";
import { troubles } from "../../sign-in/sign-in-notes.ts";
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
import { note, whoOf } from "../../trail.ts";

const path = "/profile/identities";
const title = "Sign-in elsewhere";

/** Sign-in through an issuer of OpenID Connect, and to whom it is linked: only a signed-in person makes a link. */
export function identityRoutes(parts: Parts): Route[] {
  return [
    publicRoute({ ...post("/sign-in/oidc"), isGuessable: true }, async (asked) => {
      const next = safeNext(asked.form.typed("next"));
      if (asked.visitor?.session.isComplete) return redirect(next);
      return (await leave(parts, asked, { sessionId: null, next })) ?? redirect("/sign-in?note=away");
    }),
    publicRoute({ ...get("/sign-in/oidc/callback"), isGuessable: true }, (asked) => comeBack(parts, asked)),
    personRoute(get(path), async (asked) => page(title, await show(parts, asked))),
    personRoute({ ...post(`${path}/link`), isGuessable: true }, (asked) => beginLink(parts, asked)),
    personRoute(post(`${path}/unlink`), (asked) => unlink(parts, asked)),
  ];
}

function configured({ oidc }: Parts): Oidc {
  if (!oidc) throw new Problem("not-found");
  return oidc;
}

/**
 * The page that leads to the issuer; undefined while it is away. It is a page and no redirect, for `form-action` counts
 * for every redirect after a form, and where an issuer sends a browser on to is not known here.
 */
async function leave(
  parts: Parts,
  asked: Asked,
  purpose: Pick<Attempt, "sessionId" | "next">,
): Promise<Answer | undefined> {
  const oidc = configured(parts);
  const begun = await oidc.begin();
  if (!begun) return undefined;
  const { url, state, secrets } = begun;
  await insertAttempt(parts.pool, {
    ...purpose,
    stateHash: hashToken(state),
    browserHash: hashToken(asked.browserSecret),
    sealed: parts.box.seal(Buffer.from(JSON.stringify(secrets)), state),
  });
  const body = html`<p>Your browser goes to ${oidc.name} by itself. If it does not:</p>
    <p><a href="${url.href}">Go on to ${oidc.name}</a></p>`;
  return page(`On to ${oidc.name}`, body, { goesOnTo: url });
}

type Back = { attempt: Attempt; identity: Identity } | "stale" | "cancelled" | "away" | "failed";

/** Only the browser that began may come back, once: another one could else be signed in as whoever began. */
async function takeBack(parts: Parts, asked: Asked): Promise<Back> {
  const state = asked.query("state");
  if (state === "" || asked.browserSecret === "") return "stale";
  const key = { stateHash: hashToken(state), browserHash: hashToken(asked.browserSecret) };
  const attempt = await takeAttempt(parts.pool, key);
  if (!attempt) return "stale";
  if (attempt.sessionId !== null && !isOf(asked, attempt.sessionId)) return "stale";
  const secrets = JSON.parse(parts.box.open(attempt.sealed, state).toString()) as Secrets;
  const brought = new URLSearchParams();
  for (const name of ["code", "state", "iss", "error"]) {
    if (asked.query(name) !== "") brought.set(name, asked.query(name));
  }
  const identity = await configured(parts).finish(brought, state, secrets);
  return typeof identity === "string" ? identity : { attempt, identity };
}

const isOf = ({ visitor }: Asked, sessionId: string): boolean =>
  visitor?.session.isComplete === true && visitor.session.sessionId === sessionId;

async function comeBack(parts: Parts, asked: Asked): Promise<Answer> {
  const oidc = configured(parts);
  const back = await takeBack(parts, asked);
  if (asked.visitor?.session.isComplete) {
    const signedIn: SignedIn = { ...asked, visitor: asked.visitor };
    if (typeof back === "string") return redirect(path, troubles[back](oidc.name));
    if (back.attempt.sessionId !== null) return link(parts, signedIn, back.identity);
  }
  return typeof back === "string" ? refuse(parts, back) : signIn(parts, asked, back);
}

function refuse({ metrics }: Parts, why: keyof typeof troubles): Answer {
  if (why !== "cancelled" && why !== "away") metrics.signIns.inc({ outcome: "refused" });
  return redirect(`/sign-in?note=${why}`);
}

type Came = { attempt: Attempt; identity: Identity };

async function signIn(parts: Parts, asked: Asked, { attempt, identity }: Came): Promise<Answer> {
  const person = await findPersonByIdentity(parts.pool, identity);
  if (!person) return refuse(parts, "unknown");
  const shown = { person, issuer: identity.issuer, next: safeNext(attempt.next) };
  return (await passFirstFactor(parts, asked, shown)) ?? refuse(parts, "refused");
}

async function show({ pool, oidc }: Parts, asked: SignedIn): Promise<Markup> {
  const identities = await listIdentities(pool, asked.visitor.person.personId);
  const linked = identities.map(({ issuer, subject, linkedAt }) => {
    const fields = html`<input type="hidden" name="issuer" value="${issuer}" />`;
    return html`<h2>${nameOf(oidc, issuer)}</h2>
      <p>Linked on ${instant(linkedAt)}, as <code>${subject}</code> of ${issuer}.</p>
      ${form(asked, { action: `${path}/unlink`, button: "Unlink", isDanger: true }, fields)}`;
  });
  const isLinked = identities.some(({ issuer }) => oidc?.isOf(issuer));
  const intro = html`<p>
    Your password, and your second factor if you have one, are as they are. Who can sign in there as you can sign in
    here with what you link.
  </p>`;
  const sent = { action: `${path}/link`, button: `Link ${oidc?.name ?? ""}` };
  return html`${intro}${linked}${oidc && !isLinked && form(asked, sent, currentPasswordField(asked.form))}
  ${!oidc && linked.length === 0 && html`<p>This console is not set up for it.</p>`}`;
}

const nameOf = (oidc: Oidc | undefined, issuer: string): string => (oidc?.isOf(issuer) ? oidc.name : issuer);

async function beginLink(parts: Parts, asked: SignedIn): Promise<Answer> {
  const oidc = configured(parts);
  if (!(await isOwnPassword(parts, asked))) return again(title, await show(parts, asked));
  const purpose = { sessionId: asked.visitor.session.sessionId, next: path };
  return (await leave(parts, asked, purpose)) ?? redirect(path, troubles.away(oidc.name));
}

async function link(parts: Parts, asked: SignedIn, identity: Identity): Promise<Answer> {
  const { name } = configured(parts);
  const { personId } = asked.visitor.person;
  const sessionToken = await inTransaction(parts.pool, async (db) => {
    if (!(await insertIdentity(db, { ...identity, personId }))) return undefined;
    await note(db, whoOf(asked), { action: "identity.link", target: personId, after: identity });
    return renewSession(db, asked);
  });
  if (sessionToken !== undefined) {
    return { ...redirect(path, `You can sign in with ${name} from now on.`), sessionToken };
  }
  return redirect(path, `This account of ${name} is linked already: here, or to somebody else. Nothing was changed.`);
}

/** Other sessions end: somebody may have signed in with what is linked no more. */
async function unlink({ pool, oidc }: Parts, asked: SignedIn): Promise<Answer> {
  const { person, session } = asked.visitor;
  const { personId } = person;
  const issuer = asked.form.exact("issuer");
  const sessionToken = await inTransaction(pool, async (db) => {
    const before = await deleteIdentity(db, personId, issuer);
    if (!before) throw new Problem("refused");
    const endedSessions = await deleteOtherSessions(db, personId, session.sessionId);
    await note(db, whoOf(asked), { action: "identity.unlink", target: personId, before, after: { endedSessions } });
    return renewSession(db, asked);
  });
  return {
    ...redirect(path, `${nameOf(oidc, issuer)} is unlinked, and your other sessions have ended.`),
    sessionToken,
  };
}
