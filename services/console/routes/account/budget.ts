import type { Account } from "#proto/authquota/v1/authquota_pb.ts";
import { actorOf, auditAround } from "../../audit-log.ts";
import type { Deps } from "../../deps.ts";
import { findAccount } from "../../directory.ts";
import { money } from "../../html/amounts.ts";
import { figure, form } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import {
  auditLimit,
  changedLimit,
  limitAndRest,
  limitFields,
  limitSettingsOf,
  readLimit,
} from "../../html/limit-fields.ts";
import { Problem } from "../../html/problem.ts";
import { accountRoute, again, get, page, post, redirect } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import { may } from "../../permissions.ts";

const title = "Budget";

/** What all keys of an account may spend together. */
export function budgetRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/budget"), "budget.view", async (request) => page(title, await budgetPage(deps, request))),
    accountRoute(post("/budget"), "budget.change", (request) => change(deps, request)),
  ];
}

const budgetPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/budget`;

async function accountOf(deps: Deps, accountId: string): Promise<Account> {
  const account = await findAccount(deps, accountId);
  if (!account) throw new Problem("not-found");
  return account;
}

async function budgetPage(deps: Deps, request: AccountRequest): Promise<Markup> {
  const { accountId } = request;
  const [account, funds] = await Promise.all([
    accountOf(deps, accountId),
    deps.billing.getFunds({ accountIds: [accountId] }),
  ]);
  const spentNanos = (funds.accounts[0]?.spentNanos ?? 0n) - account.spentBeforeNanos;
  const limit = limitSettingsOf(account);
  const fields = limitFields(
    request.form,
    limit,
    "What all keys of the account may spend together, such as 250. Empty: limited only by its balance.",
  );
  return html`<section class="card">
      <dl class="figures-row">
        ${figure("Budget", limitAndRest(limit, spentNanos) ?? "none")}
        ${figure(limit.limitPeriod ? `Spent this ${limit.limitPeriod}` : "Spent in all", money(spentNanos))}
      </dl>
      <p class="hint">
        A call that could cost more than is left is refused with 403, as if the balance were too low. A charge counts on
        the period in which it is booked, which is a moment after its call; what is refunded does not count.
      </p>
    </section>
    ${
      may(request.roles, "budget.change") &&
      form(request, { action: budgetPath(request), button: "Save budget" }, fields)
    }`;
}

async function change(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const { accountId } = request;
  const before = limitSettingsOf(await accountOf(deps, accountId));
  const limit = readLimit(request.form);
  if (!limit) return again(title, await budgetPage(deps, request));
  const values = { before: auditLimit(before), after: auditLimit(limit) };
  const event = { action: "budget.change", accountId, target: accountId, ...values } as const;
  await auditAround(deps, actorOf(request), event, async () => {
    await deps.authQuota.updateAccount({ accountId, ...changedLimit(limit) });
    return { result: undefined };
  });
  return redirect(budgetPath(request), "The budget is changed.");
}
