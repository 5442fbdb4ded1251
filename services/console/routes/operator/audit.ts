import { dayMs } from "#shared/process/clock.ts";
import { choice, input, instant, nextPage, table } from "../../html/controls.ts";
import { createForm, readDay } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { get, operatorRoute, page, type PageResponse, type Route, type SignedInRequest } from "../../html/route.ts";
import { listAudit, type AuditLine, type AuditValues } from "../../store/audit.ts";
import { auditActions } from "../../audit-log.ts";

const pageSize = 50;
const fields = ["email", "account", "action", "from", "until"] as const;

/** The audit log, for operators. */
export function auditRoutes(deps: Deps): Route[] {
  return [operatorRoute(get("/audit"), "audit.view", (request) => list(deps, request))];
}

async function list({ pool }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const given = createForm(Object.fromEntries(fields.map((name) => [name, request.query(name)])));
  const from = given.typed("from") === "" ? undefined : readDay(given, "from");
  const lastDay = given.typed("until") === "" ? undefined : readDay(given, "until");
  const before = request.query("before");
  const filter = {
    email: given.typed("email").toLowerCase(),
    action: given.typed("action"),
    accountId: given.typed("account"),
    from,
    until: lastDay && new Date(lastDay.getTime() + dayMs),
    beforeId: /^\d{1,18}$/.test(before) ? BigInt(before) : undefined,
  };
  const lines = given.errors.size > 0 ? [] : await listAudit(pool, filter, pageSize + 1);
  const shown = lines.slice(0, pageSize);
  const last = lines.length > pageSize ? shown.at(-1) : undefined;
  const head = ["Time", "Who", "From", "Action", "Account", "Target", "Outcome", "Before", "After"];
  const filters = new URLSearchParams(Object.fromEntries(fields.map((name) => [name, given.typed(name)])));
  return page(
    "Audit log",
    html`${filterForm(given)}${table("What was done, newest first", head, shown.map(row))}
    ${last && nextPage(`/operator/audit?${filters.toString()}&before=${last.auditId}`)}`,
  );
}

function filterForm(given: ReturnType<typeof createForm>): Markup {
  const all = ["", "all"] as const;
  const actions = [all, ...auditActions.map((name) => [name, name] as const)];
  return html`<form method="get" action="/operator/audit" class="filters">
    ${input(given, { name: "email", label: "E-mail address", type: "text", maxLength: 254, isOptional: true })}
    ${input(given, { name: "account", label: "Account id", maxLength: 64, isOptional: true })}
    ${choice(given, { name: "action", label: "Action", choices: actions })}
    ${input(given, { name: "from", label: "First day", type: "date", isOptional: true })}
    ${input(given, { name: "until", label: "Last day", type: "date", isOptional: true })}
    <p><button class="outline">Show</button></p>
  </form>`;
}

function row({ at, email, address, action, accountId, target, outcome, before, after }: AuditLine): Markup {
  return html`<tr>
    <th scope="row">${instant(at)}</th>
    <td>${email}</td>
    <td>${address}</td>
    <td>${action}</td>
    <td>${accountId ?? "–"}</td>
    <td>${target}</td>
    <td>${outcome}</td>
    <td>${values(before)}</td>
    <td>${values(after)}</td>
  </tr>`;
}

/** Values before or after a change. */
export function values(given: AuditValues | null): Markup | string {
  if (given === null) return "–";
  const lines = Object.entries(given).map(([name, value]) => {
    const text = Array.isArray(value) ? value.join(", ") : String(value ?? "–");
    return html`<li>${name}: ${text}</li>`;
  });
  return html`<ul class="values">
    ${lines}
  </ul>`;
}
