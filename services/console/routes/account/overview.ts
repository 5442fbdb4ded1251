import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { UsageGrouping, type UsageSum } from "#proto/billing/v1/billing_pb.ts";
import { isId } from "../../ids.ts";
import { chartTable } from "../../html/chart.ts";
import { figure, instant, nextPage, table, usd } from "../../html/controls.ts";
import { dayOf, lastDays, thisMonth, type Span } from "../../html/days.ts";
import { findAccount, findAccounts } from "../../directory.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import { accountRoute, get, page, personRoute, redirect } from "../../html/route.ts";
import type { PageResponse, AccountRequest, Route, SignedInRequest } from "../../html/route.ts";
import { listMemberships } from "../../store/memberships.ts";
import { count } from "../../html/units.ts";
import { byDay, totalOf, usageRequest, type Spend } from "../../html/usage-figures.ts";

const pageSize = 20;
const chartDays = 30;

/** The start page, a person's accounts, and the overview of one. */
export function overviewRoutes(deps: Deps): Route[] {
  return [
    personRoute(get("/"), (request) => start(deps, request)),
    personRoute(get("/accounts"), (request) => listOwn(deps, request)),
    accountRoute(get(""), "overview.view", (request) => overview(deps, request)),
    accountRoute(get("/figures"), "overview.view", async ({ accountId }) => ({
      kind: "fragment",
      body: fundsList(await fundsOf(deps, accountId)),
    })),
    accountRoute(get("/spending"), "overview.view", (request) => spending(deps, request)),
  ];
}

async function start({ pool }: Deps, { visitor }: SignedInRequest): Promise<PageResponse> {
  const { person } = visitor;
  const some = await listMemberships(pool, person.personId, { afterId: "", limit: 2 });
  const [only, another] = some;
  if (only && !another && !person.isOperator) return redirect(`/accounts/${only.accountId}`);
  return redirect(!only && person.isOperator ? "/operator/accounts" : "/accounts");
}

async function listOwn(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const { personId } = request.visitor.person;
  const afterId = isId(request.query("after")) ? request.query("after") : "";
  const memberships = await listMemberships(deps.pool, personId, { afterId, limit: pageSize + 1 });
  const shown = memberships.slice(0, pageSize);
  const accounts = await findAccounts(
    deps,
    shown.map(({ accountId }) => accountId),
  );
  const rows = shown.map(
    ({ accountId, role }) =>
      html`<tr>
        <th scope="row"><a href="/accounts/${accountId}">${accounts.get(accountId)?.name ?? accountId}</a></th>
        <td>${accountId}</td>
        <td>${role}</td>
      </tr>`,
  );
  const last = memberships.length > pageSize ? shown.at(-1) : undefined;
  const hint =
    rows.length === 0 && html`<p>Nobody has given you a role in an account yet. Ask its owner to invite you.</p>`;
  return page(
    "My accounts",
    html`${table("Accounts in which you have a role", ["Account", "Id", "Your role"], rows)}${hint}
    ${last && nextPage(`/accounts?after=${last.accountId}`)}`,
  );
}

async function overview(deps: Deps, { accountId, roles }: AccountRequest): Promise<PageResponse> {
  const { authQuota, billing, clock } = deps;
  const nowMs = clock.nowMs();
  const month = thisMonth(nowMs);
  const recent = lastDays(nowMs, chartDays);
  const span = { from: month.from < recent.from ? month.from : recent.from, until: recent.until };
  const [account, funds, list, { sums }] = await Promise.all([
    findAccount(deps, accountId),
    fundsOf(deps, accountId),
    authQuota.listKeys({ accountId }),
    billing.queryUsage(usageRequest({ accountId, span, groupBy: UsageGrouping.DAY })),
  ]);
  if (!account) throw new Problem("not-found");
  const active = list.keys.filter(({ status }) => status === KeyStatus.ACTIVE).length;
  const suspended = html`<p class="problems">This account is suspended: its keys are refused. Ask your operator.</p>`;
  return page(
    account.name,
    html`${account.status === AccountStatus.SUSPENDED && suspended}
      <div hx-get="/accounts/${accountId}/figures" hx-trigger="every 5s">${fundsList(funds)}</div>
      <div hx-get="/accounts/${accountId}/spending" hx-trigger="every 60s">${spendingList(sums, nowMs)}</div>
      <dl>${figure("Keys", `${active} active of ${list.keys.length}`)} ${figure("Your role", roles.join(", "))}</dl>
      <h2>Spend of the last ${chartDays} days</h2>
      <details>
        <summary>Show the figures of each day</summary>
        ${spendByDay(sums, recent)}
      </details>
      <p><a href="/accounts/${accountId}/usage">Usage by model and key</a></p>`,
  );
}

async function fundsOf({ authQuota, billing }: Deps, accountId: string) {
  const [balance, holds] = await Promise.all([billing.getBalance({ accountId }), authQuota.getHolds({ accountId })]);
  return { balance, holds };
}

/** What is cheap to ask for, so that it may move. */
const fundsList = ({ balance, holds }: Awaited<ReturnType<typeof fundsOf>>): Markup =>
  html`<dl>
    ${figure("Balance", usd(balance.balanceNanos))} ${figure("Available now", usd(holds.availableNanos))}
    ${figure("Held for running calls", `${usd(holds.heldNanos)} in ${count(holds.openHolds)} calls`)}
    ${figure("Paid in", usd(balance.creditedNanos))} ${figure("Charged", usd(balance.chargedNanos))}
  </dl>`;

/** Today's and this month's use, from sums of days that hold them. */
function spendingList(sums: readonly UsageSum[], nowMs: number): Markup {
  const since = ({ from }: Span) => totalOf(sums.filter(({ group }) => group >= dayOf(from)));
  const today = since(lastDays(nowMs, 1));
  const month = since(thisMonth(nowMs));
  const calls = ({ calls: all, failedCalls }: Spend): string => `${count(all)}, ${count(failedCalls)} failed`;
  return html`<dl>
    ${figure("Spend today", usd(today.chargedNanos))} ${figure("Calls today", calls(today))}
    ${figure("Spend this month", usd(month.chargedNanos))} ${figure("Calls this month", calls(month))}
    ${figure("As of", instant(new Date(nowMs)))}
  </dl>`;
}

function spendByDay(sums: readonly UsageSum[], span: Span): Markup {
  const rows = byDay(sums, span).map(({ day, sum }) => ({
    label: day,
    nanos: sum?.chargedNanos ?? 0n,
    cells: [usd(sum?.chargedNanos ?? 0n), count(sum?.calls ?? 0n), count(sum?.failedCalls ?? 0n)],
  }));
  return chartTable({ caption: "Spend per day in USD", head: ["Day", "Charged", "Calls", "Failed calls"], rows });
}

async function spending({ billing, clock }: Deps, { accountId }: AccountRequest): Promise<PageResponse> {
  const nowMs = clock.nowMs();
  const request = { accountId, span: thisMonth(nowMs), groupBy: UsageGrouping.DAY };
  const { sums } = await billing.queryUsage(usageRequest(request));
  return { kind: "fragment", body: spendingList(sums, nowMs) };
}
