import { AccountStatus, type Account } from "#proto/authquota/v1/authquota_pb.ts";
import { money } from "../../html/amounts.ts";
import { badge, input, nextPage, tableOf } from "../../html/controls.ts";
import { findAccounts } from "../../directory.ts";
import { createForm } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { icon } from "../../html/icon.ts";
import type { Deps } from "../../deps.ts";
import { page, type PageResponse, type SignedInRequest } from "../../html/route.ts";

const pageSize = 50;
const maxNegative = 100;
const maxSearched = 200;
const base = "/operator/accounts";
const title = "All accounts";
const head = ["Account", "Id", "State", "Rate limit", "Balance"];

export const statusOf = ({ status }: Account): string => (status === AccountStatus.SUSPENDED ? "suspended" : "active");

/** Whether its keys work. */
export const statusBadge = (account: Account): Markup =>
  badge(statusOf(account), account.status === AccountStatus.SUSPENDED ? "danger" : "success");

const rateOf = ({ requestsPerMinute }: Account): string =>
  requestsPerMinute === 0 ? "default" : `${requestsPerMinute} a minute`;

/** The accounts in the order of their ids, those with a text in id or name, or those below zero. */
export function listAccounts(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  return request.query("view") === "negative" ? listNegative(deps) : listAll(deps, request);
}

async function listAll({ authQuota, billing }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const after = /^[A-Za-z0-9_-]{1,64}$/.test(request.query("after")) ? request.query("after") : "";
  const search = request.query("q").slice(0, maxSearched);
  const { accounts } = await authQuota.listAccounts({ afterAccountId: after, limit: pageSize, search });
  const funds = await billing.getFunds({ accountIds: accounts.map(({ accountId }) => accountId) });
  const balances = new Map(funds.accounts.map(({ accountId, balanceNanos }) => [accountId, balanceNanos]));
  const rows = accounts.map((account) => row(account.accountId, account, balances.get(account.accountId) ?? 0n));
  const last = accounts.length === pageSize ? accounts.at(-1) : undefined;
  const caption = search === "" ? "Accounts in the order of their ids" : `Accounts with “${search}” in id or name`;
  const next = new URLSearchParams({ ...(search !== "" && { q: search }), after: last?.accountId ?? "" });
  return page(
    title,
    html`${views("all", search)}${accountsTable(caption, rows)}${last && nextPage(`${base}?${next.toString()}`)}`,
    { actions: newAccount },
  );
}

async function listNegative(deps: Deps): Promise<PageResponse> {
  const { accounts, total } = await deps.billing.listLowBalances({ belowNanos: 0n, limit: maxNegative });
  const known = await findAccounts(
    deps,
    accounts.map(({ accountId }) => accountId),
  );
  const rows = accounts.map(({ accountId, balanceNanos }) => row(accountId, known.get(accountId), balanceNanos));
  return page(
    title,
    html`${views("negative", "")}
      <p>${total} ${total === 1n ? "account is" : "accounts are"} below zero.</p>
      ${accountsTable(`Accounts below zero, the lowest first, at most ${maxNegative}`, rows)}`,
    { actions: newAccount },
  );
}

const newAccount = html`<a class="button" href="${base}/new">${icon("plus")}New account</a>`;

function accountsTable(caption: string, rows: readonly Markup[]): Markup {
  if (rows.length === 0) return html`<p class="card">${caption}: none.</p>`;
  return tableOf(
    { caption, head, attributes: html` class="accounts"` },
    html`<tbody>
      ${rows}
    </tbody>`,
  );
}

/** An account may be in the ledger and not be known to auth-quota. */
function row(accountId: string, account: Account | undefined, balanceNanos: bigint): Markup {
  return html`<tr>
    <th scope="row">${account ? html`<a href="${base}/${accountId}">${account.name}</a>` : "unknown"}</th>
    <td>${accountId}</td>
    <td>${account ? statusBadge(account) : "–"}</td>
    <td>${account ? rateOf(account) : "–"}</td>
    <td class="amount">${money(balanceNanos)}</td>
  </tr>`;
}

function views(view: "all" | "negative", search: string): Markup {
  const link = (href: string, label: string, isHere: boolean): Markup =>
    html`<li><a href="${href}" ${isHere && html` aria-current="page"`}>${label}</a></li>`;
  const field = { name: "q", label: "Id or name", value: search, maxLength: maxSearched, isOptional: true };
  return html`<nav aria-label="Accounts">
      <ul>
        ${link(base, "All", view === "all")} ${link(`${base}?view=negative`, "Below zero", view === "negative")}
      </ul>
    </nav>
    <form method="get" action="${base}" class="filters">
      ${input(createForm({}), field)}
      <p><button>Find</button></p>
    </form>`;
}
