import { auditActions } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { choice, instant, nextPage, table } from "../../html/controls.ts";
import { createForm } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { accountRoute, get, page } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import { listAudit, type AuditLine } from "../../store/audit.ts";
import { findRole } from "../../store/memberships.ts";
import { values } from "../operator/audit.ts";

const pageSize = 50;
// What is done to people or the installation names no account.
const ofAccounts = auditActions.filter((action) =>
  /^(?:invitation|member|domain|key|account|budget|top-up|auto-top-up|card|alerts|webhook|voucher)\./.test(action),
);

/** What was done in an account, for those who answer for it. */
export function accountAuditRoutes(deps: Deps): Route[] {
  return [accountRoute(get("/audit"), "account-audit.view", (request) => list(deps, request))];
}

async function list({ pool }: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const [action, before] = [request.query("action"), request.query("before")];
  const beforeId = /^\d{1,18}$/.test(before) ? BigInt(before) : undefined;
  const filter = { email: "", action, accountId, from: undefined, until: undefined, beforeId };
  const lines = await listAudit(pool, filter, pageSize + 1);
  const shown = lines.slice(0, pageSize);
  const last = lines.length > pageSize ? shown.at(-1) : undefined;
  const personIds = [...new Set(shown.flatMap(({ personId }) => personId ?? []))];
  const roles = await Promise.all(personIds.map((personId) => findRole(pool, personId, accountId)));
  const members = new Set(personIds.filter((_, index) => roles[index] !== undefined));
  const actions = [["", "all"] as const, ...ofAccounts.map((name) => [name, name] as const)];
  const path = `/accounts/${accountId}/audit`;
  return page(
    "Audit log",
    html`<form method="get" action="${path}" class="filters">
        ${choice(createForm({ action }), { name: "action", label: "Action", choices: actions })}
        <p><button class="outline">Show</button></p>
      </form>
      ${table(
        "What was done in this account, newest first",
        ["Time", "Who", "Action", "Target", "Outcome", "Before", "After"],
        shown.map((line) => row(line, members)),
      )}
      ${last && nextPage(`${path}?${new URLSearchParams({ action, before: `${last.auditId}` }).toString()}`)}`,
  );
}

/** Addresses of operators, and of whoever has left, are nobody's business here. */
function whoOf({ personId, email }: AuditLine, members: ReadonlySet<string>): string {
  if (personId === null) return email;
  return members.has(personId) ? email : "an operator, or a former member";
}

function row(line: AuditLine, members: ReadonlySet<string>): Markup {
  const { at, action, target, outcome, before, after } = line;
  return html`<tr>
    <th scope="row">${instant(at)}</th>
    <td>${whoOf(line, members)}</td>
    <td>${action}</td>
    <td>${target}</td>
    <td>${outcome}</td>
    <td>${values(before)}</td>
    <td>${values(after)}</td>
  </tr>`;
}
