import type { Seen } from "../../credentials/oidc.ts";
import type { Deps } from "../../deps.ts";
import { get, post, publicRoute, redirect } from "../../html/route.ts";
import type { PageRequest, PageResponse, Route, SignedInRequest } from "../../html/route.ts";
import { safeNext } from "../../http/guard.ts";
import { comeBackFromIssuer, configuredIssuer, leaveForIssuer, type Errand } from "../../sign-in/at-issuer.ts";
import { passFirstFactor } from "../../sign-in/finish-sign-in.ts";
import { joinByDomain } from "../../sign-in/join-by-domain.ts";
import { troubles, type Trouble } from "../../sign-in/sign-in-messages.ts";
import { findPersonByIdentity } from "../../store/identities.ts";
import { acceptFromIssuer } from "../account/invitations.ts";
import { setFirstPassword } from "./first-password.ts";
import { identitiesPath, linkIdentity } from "./identities.ts";

/** To the issuer and back, whatever for. */
export function issuerRoutes(deps: Deps): Route[] {
  return [
    publicRoute({ ...post("/sign-in/oidc"), isGuessable: true }, async (request) => {
      const next = safeNext(request.form.typed("next"));
      if (request.visitor?.session.isComplete) return redirect(next);
      const errand = { purpose: { kind: "sign-in" }, sessionId: null, next } as const;
      return (await leaveForIssuer(deps, request, errand)) ?? redirect("/sign-in?note=away");
    }),
    publicRoute({ ...get("/sign-in/oidc/callback"), isGuessable: true }, (request) => comeBack(deps, request)),
  ];
}

async function comeBack(deps: Deps, request: PageRequest): Promise<PageResponse> {
  configuredIssuer(deps);
  const { errand, outcome } = await comeBackFromIssuer(deps, request);
  if (typeof outcome === "string") return turnBack(deps, request, errand, outcome);
  const { purpose, next, sessionId } = errand;
  if (purpose.kind === "sign-in") return signIn(deps, request, outcome, next);
  if (purpose.kind === "invitation") {
    const arrival = { ...purpose, sessionId, next, seen: outcome };
    const answer = await acceptFromIssuer(deps, request, arrival);
    return typeof answer === "string" ? turnBack(deps, request, errand, answer) : answer;
  }
  // Both are begun by a session, which is still the one that came back.
  const signedIn = request as SignedInRequest;
  const { identity } = outcome;
  if (purpose.kind === "link") return linkIdentity(deps, signedIn, identity);
  return setFirstPassword(deps, signedIn, { identity, passwordHash: purpose.passwordHash });
}

/** To where it was begun, which says why nothing came of it. */
function turnBack(deps: Deps, request: PageRequest, errand: Errand | undefined, why: Trouble): PageResponse {
  if (errand?.purpose.kind === "invitation") return redirect(`${errand.next}?note=${why}`);
  if (!request.visitor?.session.isComplete) return refuse(deps, why);
  return redirect(errand?.next ?? identitiesPath, troubles[why](configuredIssuer(deps).name));
}

function refuse({ metrics }: Deps, why: Trouble): PageResponse {
  if (why !== "cancelled" && why !== "away") metrics.signIns.inc({ outcome: "refused" });
  return redirect(`/sign-in?note=${why}`);
}

async function signIn(deps: Deps, request: PageRequest, seen: Seen, next: string): Promise<PageResponse> {
  const person = await findPersonByIdentity(deps.pool, seen.identity);
  if (person) {
    const shown = { person, issuer: seen.identity.issuer, next: safeNext(next) };
    return (await passFirstFactor(deps, request, shown)) ?? refuse(deps, "refused");
  }
  const joined = await joinByDomain(deps, request, seen);
  if (typeof joined === "string") return refuse(deps, joined);
  deps.metrics.signIns.inc({ outcome: "done" });
  return { ...redirect(safeNext(next)), ...joined };
}
