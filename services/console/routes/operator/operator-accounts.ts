import { AccountStatus, KeyStatus, type Account } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { isId } from "../../ids.ts";
import { money } from "../../html/amounts.ts";
import { button, figure, form, input, leadFigure } from "../../html/controls.ts";
import { findAccount } from "../../directory.ts";
import { readNumber, readText } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { listAccounts, statusBadge, statusOf } from "./operator-account-list.ts";
import { moneyForms } from "./operator-money.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { count } from "../../html/units.ts";
import { auditAround, actorOf } from "../../audit-log.ts";

const maxPerMinute = 1_000_000;
const maxConcurrency = 100_000;
const base = "/operator/accounts";
const action = "accounts.manage";
const newTitle = "New account";

/** All accounts, for operators. */
export function operatorAccountRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/accounts"), action, (request) => listAccounts(deps, request)),
    operatorRoute(get("/accounts/new"), action, async (request) => page(newTitle, newForm(request))),
    operatorRoute(post("/accounts/new"), action, (request) => create(deps, request)),
    operatorRoute(get("/accounts/:id"), action, async (request) => {
      const account = await accountIn(deps, request);
      return page(account.name, await detail(deps, request, account));
    }),
    operatorRoute(post("/accounts/:id"), action, (request) => change(deps, request)),
    operatorRoute(post("/accounts/:id/suspend"), action, (request) => switchAccount(deps, request, "suspend")),
    operatorRoute(post("/accounts/:id/activate"), action, (request) => switchAccount(deps, request, "activate")),
  ];
}

/** The account in the path. */
export async function accountIn(deps: Deps, { parameters }: SignedInRequest): Promise<Account> {
  const id = parameters["id"] ?? "";
  const account = isId(id) ? await findAccount(deps, id) : undefined;
  if (!account) throw new Problem("not-found");
  return account;
}

function settingFields(request: SignedInRequest, account?: Account): Markup {
  return html`${input(request.form, { name: "name", label: "Name", value: account?.name ?? "", maxLength: 200 })}
  ${input(request.form, {
    name: "rate",
    label: "Calls per minute",
    hint: "0: the default of the installation.",
    value: String(account?.requestsPerMinute ?? 0),
    inputmode: "numeric",
    maxLength: 7,
  })}
  ${input(request.form, {
    name: "concurrency",
    label: "Calls at once",
    hint: "0 or empty: the default of the installation.",
    value: String(account?.maxConcurrent ?? 0),
    inputmode: "numeric",
    maxLength: 6,
    isOptional: true,
  })}`;
}

function newForm(request: SignedInRequest): Markup {
  const id = input(request.form, {
    name: "id",
    label: "Id",
    hint: "Letters, digits, - and _; cannot be changed later. Empty: generated.",
    maxLength: 64,
    isOptional: true,
  });
  return form(request, { action: `${base}/new`, button: "Create account" }, html`${settingFields(request)}${id}`);
}

type Settings = { name: string; requestsPerMinute: number; maxConcurrent: number };

function readSettings({ form: given }: SignedInRequest): Settings | undefined {
  const name = readText(given, "name", { maxLength: 200, what: "a name" });
  const requestsPerMinute = readNumber(given, "rate", maxPerMinute);
  const maxConcurrent = given.typed("concurrency") === "" ? 0 : readNumber(given, "concurrency", maxConcurrency);
  if (name === undefined || requestsPerMinute === undefined || maxConcurrent === undefined) return undefined;
  return { name, requestsPerMinute, maxConcurrent };
}

async function create(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const settings = readSettings(request);
  const id = request.form.typed("id");
  if (id !== "" && !isId(id)) request.form.refuse("id", "Use 1 to 64 letters, digits, - or _.");
  if (!settings || request.form.errors.size > 0) return again(newTitle, newForm(request));
  try {
    const event = { action: "account.create", target: id === "" ? settings.name : id, after: settings } as const;
    const accountId = await auditAround(deps, actorOf(request), event, async () => {
      const made = await deps.authQuota.createAccount({ ...settings, accountId: id });
      const result = made.account?.accountId ?? "";
      return { result, target: result, accountId: result };
    });
    return redirect(`${base}/${accountId}`, `The account ${settings.name} is made. Now invite its owner.`);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "already_exists") throw error;
    request.form.refuse("id", "There is an account with this id.");
    return again(newTitle, newForm(request));
  }
}

/** All that operators see and do of one account. */
export async function detail(deps: Deps, request: SignedInRequest, account: Account): Promise<Markup> {
  const { accountId } = account;
  const [balance, holds, { keys }] = await Promise.all([
    deps.billing.getBalance({ accountId }),
    deps.authQuota.getHolds({ accountId }),
    deps.authQuota.listKeys({ accountId }),
  ]);
  const path = `${base}/${accountId}`;
  const isActive = statusOf(account) === "active";
  const active = keys.filter(({ status }) => status === KeyStatus.ACTIVE).length;
  return html`<nav aria-label="This account">
      <ul>
        <li><a href="/accounts/${accountId}">Overview</a></li>
        <li><a href="/accounts/${accountId}/usage">Usage</a></li>
        <li><a href="/accounts/${accountId}/ledger">Ledger</a></li>
        <li><a href="/accounts/${accountId}/keys">Keys</a></li>
        <li><a href="/accounts/${accountId}/members">Members</a></li>
        <li><a href="/operator/audit?account=${accountId}">Audit log</a></li>
      </ul>
    </nav>
    <section class="card">
      <dl class="figures-row">
        ${leadFigure("Balance", money(balance.balanceNanos))} ${figure("Available now", money(holds.availableNanos))}
        ${figure("Held for running calls", html`${money(holds.heldNanos)} in ${count(holds.openHolds)} calls`)}
        ${figure("Keys", `${count(active)} active of ${count(keys.length)}`)} ${figure("Id", accountId)}
        ${figure("State", statusBadge(account))}
      </dl>
    </section>
    <h2>Settings</h2>
    ${form(request, { action: path, button: "Save settings" }, settingFields(request, account))}
    <h2>Access</h2>
    <p>${isActive ? "A suspended account keeps its money; its keys are refused." : "Its keys are refused."}</p>
    ${
      isActive
        ? button(request, { action: `${path}/suspend`, button: "Suspend account", isDanger: true })
        : button(request, { action: `${path}/activate`, button: "Activate account" })
    }
    ${moneyForms(request, path)}`;
}

async function change(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const account = await accountIn(deps, request);
  const { accountId, name, requestsPerMinute, maxConcurrent } = account;
  const settings = readSettings(request);
  if (!settings) return again(name, await detail(deps, request, account));
  const before = { name, requestsPerMinute, maxConcurrent };
  const event = { action: "account.change", accountId, target: accountId, before, after: settings } as const;
  await auditAround(deps, actorOf(request), event, async () => {
    await deps.authQuota.updateAccount({ accountId, ...settings });
    return { result: undefined };
  });
  return redirect(`${base}/${accountId}`, "The settings are saved.");
}

async function switchAccount(
  deps: Deps,
  request: SignedInRequest,
  turn: "suspend" | "activate",
): Promise<PageResponse> {
  const account = await accountIn(deps, request);
  const { accountId, name } = account;
  const status = turn === "suspend" ? AccountStatus.SUSPENDED : AccountStatus.ACTIVE;
  const after = { status: turn === "suspend" ? "suspended" : "active" };
  const before = { status: statusOf(account) };
  const event = { action: `account.${turn}`, accountId, target: accountId, before, after } as const;
  await auditAround(deps, actorOf(request), event, async () => {
    await deps.authQuota.updateAccount({ accountId, status });
    return { result: undefined };
  });
  return redirect(`${base}/${accountId}`, `The account ${name} is ${after.status}.`);
}
