import { isId } from "../ids.ts";
import type { Deps } from "../deps.ts";
import { may, type Role } from "../permissions.ts";
import { Problem } from "../html/problem.ts";
import { redirect, type PageResponse, type PageRequest, type AccountRequest, type Route } from "../html/route.ts";
import { secondFactorPath } from "../html/layout.ts";
import { owesSecondFactor } from "../sign-in/second-factor.ts";
import { findRole } from "../store/memberships.ts";

/** Checks the route's access: returns the request to handle, or the response to send instead. */
export async function admit(
  deps: Pick<Deps, "pool" | "secondFactorRequiredOf">,
  { access, method }: Route,
  pageRequest: PageRequest,
): Promise<{ pageRequest: PageRequest } | { instead: PageResponse }> {
  if (access === "everybody") return { pageRequest };
  const { visitor } = pageRequest;
  if (access === "half") {
    return visitor && !visitor.session.isComplete ? { pageRequest } : { instead: redirect("/sign-in") };
  }
  if (!visitor?.session.isComplete) return { instead: redirect(signInPath(method === "GET" ? pageRequest.path : "/")) };
  if (access === "signed-in") return { pageRequest };

  const isOwing = owesSecondFactor(deps, visitor.person);
  const installation: Role[] = visitor.person.isOperator && !isOwing ? ["operator"] : [];
  const isOwed = isOwing && may(["operator"], access.action);
  if (!access.isInAccount) {
    if (isOwed) return demandSecondFactor();
    if (!may(installation, access.action)) throw new Problem("not-allowed");
    return { pageRequest };
  }
  const accountId = pageRequest.parameters["accountId"] ?? "";
  const own = isId(accountId) ? await findRole(deps.pool, visitor.person.personId, accountId) : undefined;
  const roles: Role[] = own === undefined ? installation : [own, ...installation];
  if (isOwed && !may(roles, access.action)) return demandSecondFactor();
  // Whether an account exists is nobody's business who has no role in it.
  if (roles.length === 0) throw new Problem("not-found");
  if (!may(roles, access.action)) throw new Problem("not-allowed");
  const inAccount: AccountRequest = { ...pageRequest, visitor, accountId, roles };
  return { pageRequest: inAccount };
}

const demandSecondFactor = (): { instead: PageResponse } => ({
  instead: redirect(secondFactorPath, "Operators of this console need a second factor: set it up, then go on."),
});

/** The sign-in page, which leads on to a page of this console. */
export function signInPath(next: string): string {
  return next === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(next)}`;
}

/** Where to go on after the sign-in: a path of this console and nothing that a browser takes for another host. */
export function safeNext(next: string): string {
  return /^\/[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+){0,5}$/.test(next) && next.length <= 300 ? next : "/";
}
