import { AccountStatus, KeyStatus } from "#proto/authquota/v1/authquota_pb.ts";
import { UsageGrouping, type UsageSum } from "#proto/billing/v1/billing_pb.ts";
import { isId } from "../../ids.ts";
import { chartTable } from "../../html/chart.ts";
import { money } from "../../html/amounts.ts";
import { ago, badge, figure, leadFigure, nextPage, table } from "../../html/controls.ts";
import { dayOf, lastDays, thisMonth, type Span } from "../../html/days.ts";
import { findAccount, findAccounts } from "../../directory.ts";
import { html, type Markup } from "../../html/html.ts";
import { icon } from "../../html/icon.ts";
import { may, type Role } from "../../permissions.ts";
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
  const base = `/accounts/${accountId}`;
  const suspended = html`<p class="problems">This account is suspended: its keys are refused. Ask your operator.</p>`;
  return page(
    account.name,
    html`${account.status === AccountStatus.SUSPENDED && suspended}
      ${sums.length === 0 && firstSteps(deps, { base, roles, funds, hasKey: active > 0 })}
      <div class="cards">
        <section class="card" hx-get="${base}/figures" hx-trigger="every 5s">${fundsList(funds)}</section>
        <section class="card" hx-get="${base}/spending" hx-trigger="every 60s">${spendingList(sums, nowMs)}</section>
      </div>
      <section class="card">
        <h2>Spend of the last ${chartDays} days</h2>
        ${sums.length === 0 && html`<p class="hint">The first call of this account will show up here.</p>`}
        ${
          sums.length > 0 &&
          html`<details>
            <summary>Show the figures of each day</summary>
            ${spendByDay(sums, recent)}
          </details>`
        }
        <a href="${base}/usage">Usage by model and key</a>
      </section>
      <section class="card">
        <dl>${figure("Keys", `${active} active of ${list.keys.length}`)} ${figure("Your role", roles.join(", "))}</dl>
      </section>`,
    { actions: actionsOf(base, roles) },
  );
}

const actionsOf = (base: string, roles: readonly Role[]): Markup =>
  html`${may(roles, "top-ups.make") && html`<a class="button outline" href="${base}/top-up">Add credits</a>`}
  ${may(roles, "keys.create") && html`<a class="button" href="${base}/keys/new">${icon("plus")}Create key</a>`}`;

type Beginning = { base: string; roles: readonly Role[]; funds: Funds; hasKey: boolean };

/** What there is to do until the first call: each step with its state, and the way to it. */
function firstSteps({ apiUrl }: Deps, { base, roles, funds, hasKey }: Beginning): Markup {
  const hasCredit = funds.balance.balanceNanos > 0n;
  const step = (isDone: boolean, title: string, more: Markup | false): Markup =>
    html`<li>${badge(isDone ? "done" : "to do", isDone ? "success" : "secondary")} ${title} ${!isDone && more}</li>`;
  const addCredits = may(roles, "top-ups.make") && html`<a href="${base}/top-up">Add credits</a>`;
  const makeKey = may(roles, "keys.create") && html`<a href="${base}/keys/new">Create key</a>`;
  return html`<section class="card">
    <h2>Your first call</h2>
    <ol class="steps">
      ${step(hasCredit, "The account has a balance.", addCredits)} ${step(hasKey, "There is a key.", makeKey)}
      ${step(
        false,
        "Make a call:",
        html`<a href="${base}/quick-start">copy a snippet</a>
          ${may(roles, "playground.use") && html` or <a href="${base}/playground">try it in the playground</a>`}`,
      )}
    </ol>
    <p class="hint">The base URL is <code>${apiUrl.origin}/v1</code>. This page shows the first call by itself.</p>
  </section>`;
}

type Funds = Awaited<ReturnType<typeof fundsOf>>;

async function fundsOf({ authQuota, billing }: Deps, accountId: string) {
  const [balance, holds] = await Promise.all([billing.getBalance({ accountId }), authQuota.getHolds({ accountId })]);
  return { balance, holds };
}

/** What is cheap to ask for, so that it may move. */
const fundsList = ({ balance, holds }: Funds): Markup =>
  html`<dl class="figures-row">
    ${leadFigure("Balance", money(balance.balanceNanos))} ${figure("Available now", money(holds.availableNanos))}
    ${figure("Held for running calls", html`${money(holds.heldNanos)} in ${count(holds.openHolds)} calls`)}
    ${figure("Paid in", money(balance.creditedNanos))} ${figure("Charged", money(balance.chargedNanos))}
  </dl>`;

/** Today's and this month's use, from sums of days that hold them. */
function spendingList(sums: readonly UsageSum[], nowMs: number): Markup {
  const since = ({ from }: Span) => totalOf(sums.filter(({ group }) => group >= dayOf(from)));
  const today = since(lastDays(nowMs, 1));
  const month = since(thisMonth(nowMs));
  const calls = ({ calls: all, failedCalls }: Spend): string => `${count(all)}, ${count(failedCalls)} failed`;
  return html`<dl class="figures-row">
    ${leadFigure("Spend this month", money(month.chargedNanos))} ${figure("Spend today", money(today.chargedNanos))}
    ${figure("Calls today", calls(today))} ${figure("Calls this month", calls(month))}
    ${figure("As of", ago(new Date(nowMs)))}
  </dl>`;
}

function spendByDay(sums: readonly UsageSum[], span: Span): Markup {
  const rows = byDay(sums, span).map(({ day, sum }) => ({
    label: day,
    nanos: sum?.chargedNanos ?? 0n,
    isInChartAlone: sum === undefined,
    cells: [money(sum?.chargedNanos ?? 0n), count(sum?.calls ?? 0n), count(sum?.failedCalls ?? 0n)],
  }));
  return chartTable({ caption: "Spend per day in USD", head: ["Day", "Charged", "Calls", "Failed calls"], rows });
}

async function spending({ billing, clock }: Deps, { accountId }: AccountRequest): Promise<PageResponse> {
  const nowMs = clock.nowMs();
  const request = { accountId, span: thisMonth(nowMs), groupBy: UsageGrouping.DAY };
  const { sums } = await billing.queryUsage(usageRequest(request));
  return { kind: "fragment", body: spendingList(sums, nowMs) };
}
