import type { Oidc, OidcWish, Secrets, Seen } from "../credentials/oidc.ts";
import { hashToken } from "../credentials/secrets.ts";
import type { Deps } from "../deps.ts";
import { html } from "../html/html.ts";
import { Problem } from "../html/problem.ts";
import { page, type PageRequest, type PageResponse } from "../html/route.ts";
import { insertAttempt, takeAttempt } from "../store/identities.ts";
import type { Trouble } from "./sign-in-messages.ts";

/** What somebody goes to the issuer for. A link and a password are for the person of the session that began it. */
export type Purpose =
  | { kind: "sign-in" }
  | { kind: "link" }
  | { kind: "invitation"; invitationId: string }
  | { kind: "password"; passwordHash: string };

/** `next`: where to go on in the console, or back to when nothing comes of it. */
export type Errand = { purpose: Purpose; sessionId: string | null; next: string };

/** Sealed while the browser is away: it cannot be changed, nor can a link be read that `next` may be. */
type Kept = Secrets & Partial<Pick<Errand, "purpose" | "next">>;

/** The issuer; there is no such page without one. */
export function configuredIssuer({ oidc }: Pick<Deps, "oidc">): Oidc {
  if (!oidc) throw new Problem("not-found");
  return oidc;
}

function wishOf({ kind }: Purpose, { domainSignIn }: Pick<Deps, "domainSignIn">): OidcWish {
  if (kind === "password") return { fresh: true };
  return kind === "invitation" || (kind === "sign-in" && domainSignIn) ? { email: true } : {};
}

/**
 * The page that leads to the issuer; undefined while it is away. It is a page and no redirect, for `form-action` counts
 * for every redirect after a form, and where an issuer sends a browser on to is not known here.
 */
export async function leaveForIssuer(
  deps: Deps,
  request: PageRequest,
  { purpose, sessionId, next }: Errand,
): Promise<PageResponse | undefined> {
  const oidc = configuredIssuer(deps);
  const begun = await oidc.begin(wishOf(purpose, deps));
  if (!begun) return undefined;
  const { url, state, secrets } = begun;
  const kept: Kept = { ...secrets, purpose, next };
  await insertAttempt(deps.pool, {
    sessionId,
    stateHash: hashToken(state),
    browserHash: hashToken(request.browserSecret),
    sealed: deps.box.seal(Buffer.from(JSON.stringify(kept)), state),
  });
  const body = html`<p>You are being redirected to ${oidc.name}. If not:</p>
    <p><a href="${url.href}">Continue to ${oidc.name}</a></p>`;
  return page(`On to ${oidc.name}`, body, { goesOnTo: url });
}

/** What came of it; without an errand nothing is known of how it began. */
type Return = { errand: Errand; outcome: Seen | Trouble } | { errand: undefined; outcome: Trouble };

const stale: Return = { errand: undefined, outcome: "stale" };

/** Only the browser that began may come back, once: another one could else be signed in as whoever began. */
export async function comeBackFromIssuer(deps: Deps, request: PageRequest): Promise<Return> {
  const state = request.query("state");
  if (state === "" || request.browserSecret === "") return stale;
  const key = { stateHash: hashToken(state), browserHash: hashToken(request.browserSecret) };
  const attempt = await takeAttempt(deps.pool, key);
  if (!attempt) return stale;
  const { sessionId } = attempt;
  if (sessionId !== null && !isOf(request, sessionId)) return stale;
  const kept = JSON.parse(deps.box.open(attempt.sealed, state).toString()) as Kept;
  const { nonce, codeVerifier, purpose, next = "/" } = kept;
  // A version before this one has begun it.
  if (purpose === undefined) return stale;
  const brought = new URLSearchParams();
  for (const name of ["code", "state", "iss", "error"]) {
    if (request.query(name) !== "") brought.set(name, request.query(name));
  }
  const own = { state, nonce, codeVerifier };
  const outcome = await configuredIssuer(deps).finish(brought, own, wishOf(purpose, deps));
  return { errand: { purpose, sessionId, next }, outcome };
}

const isOf = ({ visitor }: PageRequest, sessionId: string): boolean =>
  visitor?.session.isComplete === true && visitor.session.sessionId === sessionId;
