import emailProviders from "email-providers/all.json" with { type: "json" };
import { inTransaction } from "#shared/stores/postgres.ts";
import { actorOf, recordAudit } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { createClaimToken, lookForRecord } from "../../domains/claim.ts";
import { readDomain } from "../../email-address.ts";
import { Problem } from "../../html/problem.ts";
import { accountRoute, again, get, page, post, redirect } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import { domainRoles, type DomainRole } from "../../permissions.ts";
import {
  deleteDomain,
  insertDomain,
  isTaken,
  listDomains,
  lookSeconds,
  markFound,
  setDomainRole,
  takeLook,
} from "../../store/domains.ts";
import { domainsPage, domainsPath } from "./domains-page.ts";
import { lockCount } from "../../store/lock-count.ts";

const title = "Sign-in by domain";
const maxDomains = 10;
const publicProviders: ReadonlySet<string> = new Set(emailProviders);
const action = "domains.manage";

/** Domains whose people an account takes in. There are no such pages while operators have not switched it on. */
export function domainRoutes(deps: Deps): Route[] {
  const route = (path: typeof get | typeof post, url: string, handle: typeof list, isGuessable?: true): Route =>
    accountRoute({ ...path(`/members/domains${url}`), ...(isGuessable && { isGuessable }) }, action, (request) => {
      if (!deps.domainSignIn) throw new Problem("not-found");
      return handle(deps, request);
    });
  return [
    route(get, "", list),
    route(post, "", claim),
    // Each look asks DNS, in somebody else's name.
    route(post, "/:domain/verify", verify, true),
    route(post, "/:domain/role", changeRole),
    route(post, "/:domain/remove", remove),
  ];
}

async function list({ pool, oidc }: Deps, request: AccountRequest): Promise<PageResponse> {
  const domains = await listDomains(pool, request.accountId);
  return page(title, domainsPage(request, domains, oidc?.name ?? ""));
}

async function refuse({ pool, oidc }: Deps, request: AccountRequest): Promise<PageResponse> {
  const domains = await listDomains(pool, request.accountId);
  return again(title, domainsPage(request, domains, oidc?.name ?? ""));
}

/** As people write it: with a dot at its end, as DNS does, or behind an @. */
function readClaim({ form }: AccountRequest): string | undefined {
  const domain = readDomain(form.typed("domain").replace(/^@/, "").replace(/\.$/, ""));
  if (domain === undefined) return form.refuse("domain", "Give a domain such as example.org.");
  if (!publicProviders.has(domain)) return domain;
  return form.refuse("domain", "Anybody can have an address there. Give a domain that is yours alone.");
}

function readRole({ form }: AccountRequest, field: string): DomainRole | undefined {
  const role = domainRoles.find((known) => known === form.typed(field));
  return role ?? form.refuse(field, "Choose a role.");
}

async function claim(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const domain = readClaim(request);
  const role = readRole(request, "role");
  if (domain === undefined || role === undefined) return refuse(deps, request);
  const claimedBy = request.visitor.person.personId;
  const problem = await inTransaction(deps.pool, async (db) => {
    await lockCount(db, "domain", accountId);
    if ((await listDomains(db, accountId)).length >= maxDomains) return `Claim at most ${maxDomains} domains.`;
    const token = createClaimToken();
    if (!(await insertDomain(db, { accountId, domain, token, role, claimedBy }))) return "It is claimed already.";
    await recordAudit(db, actorOf(request), { action: "domain.claim", accountId, target: domain, after: { role } });
    return undefined;
  });
  if (problem === undefined) return redirect(domainsPath(request), `Now publish the record of ${domain}.`);
  request.form.refuse("domain", problem);
  return refuse(deps, request);
}

function domainIn({ parameters }: AccountRequest): string {
  const domain = readDomain(parameters["domain"] ?? "");
  if (domain === undefined) throw new Problem("not-found");
  return domain;
}

const words = {
  soon: `It was looked for just now. Wait ${lookSeconds} seconds.`,
  busy: "Too many records are being looked for. Try again in a minute.",
  absent: "The record is not there yet. Check name and value; a change may take an hour to be seen.",
  unknown: "DNS did not answer. Try again in some minutes.",
  taken: "Another account has this domain. Remove it there first.",
} as const;

async function verify(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const back = domainsPath(request);
  const domain = domainIn(request);
  const look = await takeLook(deps.pool, accountId, domain);
  if (look === undefined) throw new Problem("not-found");
  if (look === "soon") return redirect(back, words.soon);
  const found = await lookForRecord(deps, look);
  if (found !== "found") return redirect(back, words[found]);
  try {
    await inTransaction(deps.pool, async (db) => {
      if (!(await markFound(db, look, request.visitor.person.personId))) throw new Problem("refused");
      const after = { role: look.role };
      await recordAudit(db, actorOf(request), { action: "domain.verify", accountId, target: domain, after });
    });
  } catch (error) {
    if (isTaken(error)) return redirect(back, words.taken);
    throw error;
  }
  return redirect(back, `${domain} is verified.`);
}

async function changeRole({ pool }: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const domain = domainIn(request);
  const role = readRole(request, "new-role");
  if (role === undefined) throw new Problem("bad-request");
  await inTransaction(pool, async (db) => {
    const before = await setDomainRole(db, { accountId, domain, role });
    if (before === undefined) throw new Problem("not-found");
    const change = { before: { role: before }, after: { role } };
    await recordAudit(db, actorOf(request), { action: "domain.role", accountId, target: domain, ...change });
  });
  return redirect(domainsPath(request), `Who joins by ${domain} from now on is ${role}.`);
}

async function remove({ pool }: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const domain = domainIn(request);
  await inTransaction(pool, async (db) => {
    if (!(await deleteDomain(db, accountId, domain))) throw new Problem("not-found");
    await recordAudit(db, actorOf(request), { action: "domain.remove", accountId, target: domain });
  });
  return redirect(domainsPath(request), `${domain} is removed. Its people stay members until you remove them.`);
}
