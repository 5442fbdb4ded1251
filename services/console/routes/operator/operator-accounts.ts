import { AccountStatus, KeyStatus, type Account } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { isId } from "../../ids.ts";
import { button, figure, form, input, usd } from "../../html/controls.ts";
import { findAccount } from "../../directory.ts";
import { readNumber, readText } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { listAccounts, statusOf } from "./operator-account-list.ts";
import { moneyForms } from "./operator-money.ts";
import type { Parts } from "../../parts.ts";
import { Problem } from "../../html/problem.ts";
import {
  again,
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type Answer,
  type Route,
  type SignedIn,
} from "../../html/route.ts";
import { noteAround, whoOf } from "../../trail.ts";

const mostPerMinute = 1_000_000;
const base = "/operator/accounts";
const action = "accounts.manage";
const newTitle = "New account";

/** All accounts, for operators. */
export function operatorAccountRoutes(parts: Parts): Route[] {
  return [
    operatorRoute(get("/accounts"), action, (asked) => listAccounts(parts, asked)),
    operatorRoute(get("/accounts/new"), action, async (asked) => page(newTitle, newForm(asked))),
    operatorRoute(post("/accounts/new"), action, (asked) => create(parts, asked)),
    operatorRoute(get("/accounts/:id"), action, async (asked) => {
      const account = await accountIn(parts, asked);
      return page(account.name, await detail(parts, asked, account));
    }),
    operatorRoute(post("/accounts/:id"), action, (asked) => change(parts, asked)),
    operatorRoute(post("/accounts/:id/suspend"), action, (asked) => switchAccount(parts, asked, "suspend")),
    operatorRoute(post("/accounts/:id/activate"), action, (asked) => switchAccount(parts, asked, "activate")),
  ];
}

/** The account in the path. */
export async function accountIn(parts: Parts, { parameters }: SignedIn): Promise<Account> {
  const id = parameters["id"] ?? "";
  const account = isId(id) ? await findAccount(parts, id) : undefined;
  if (!account) throw new Problem("not-found");
  return account;
}

function settingFields(asked: SignedIn, account?: Account): Markup {
  return html`${input(asked.form, { name: "name", label: "Name", value: account?.name ?? "", most: 200 })}
  ${input(asked.form, {
    name: "rate",
    label: "Calls per minute",
    hint: "0: what the installation allows every account.",
    value: String(account?.requestsPerMinute ?? 0),
    inputmode: "numeric",
    most: 7,
  })}`;
}

function newForm(asked: SignedIn): Markup {
  const id = input(asked.form, {
    name: "id",
    label: "Id",
    hint: "Letters, digits, - and _; it cannot be changed later. Empty: one is made.",
    most: 64,
    isOptional: true,
  });
  return form(asked, { action: `${base}/new`, button: "Make account" }, html`${settingFields(asked)}${id}`);
}

type Settings = { name: string; requestsPerMinute: number };

function readSettings({ form: given }: SignedIn): Settings | undefined {
  const name = readText(given, "name", { most: 200, what: "a name" });
  const requestsPerMinute = readNumber(given, "rate", mostPerMinute);
  return name === undefined || requestsPerMinute === undefined ? undefined : { name, requestsPerMinute };
}

async function create(parts: Parts, asked: SignedIn): Promise<Answer> {
  const settings = readSettings(asked);
  const id = asked.form.typed("id");
  if (id !== "" && !isId(id)) asked.form.refuse("id", "Use 1 to 64 letters, digits, - or _.");
  if (!settings || asked.form.errors.size > 0) return again(newTitle, newForm(asked));
  try {
    const deed = { action: "account.create", target: id === "" ? settings.name : id, after: settings } as const;
    const accountId = await noteAround(parts, whoOf(asked), deed, async () => {
      const made = await parts.authQuota.createAccount({ ...settings, accountId: id });
      const result = made.account?.accountId ?? "";
      return { result, target: result, accountId: result };
    });
    return redirect(`${base}/${accountId}`, `The account ${settings.name} is made. Now invite its owner.`);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "already_exists") throw error;
    asked.form.refuse("id", "There is an account with this id.");
    return again(newTitle, newForm(asked));
  }
}

/** All that operators see and do of one account. */
export async function detail(parts: Parts, asked: SignedIn, account: Account): Promise<Markup> {
  const { accountId } = account;
  const [balance, holds, { keys }] = await Promise.all([
    parts.billing.getBalance({ accountId }),
    parts.authQuota.getHolds({ accountId }),
    parts.authQuota.listKeys({ accountId }),
  ]);
  const path = `${base}/${accountId}`;
  const isActive = statusOf(account) === "active";
  return html`<dl class="figures">
      ${figure("Id", accountId)} ${figure("State", statusOf(account))} ${figure("Balance", usd(balance.balanceNanos))}
      ${figure("Available now", usd(holds.availableNanos))}
      ${figure("Held for running calls", `${usd(holds.heldNanos)} in ${holds.openHolds} calls`)}
      ${figure("Keys", `${keys.filter(({ status }) => status === KeyStatus.ACTIVE).length} active of ${keys.length}`)}
    </dl>
    <ul>
      <li><a href="/accounts/${accountId}">Overview, as its people see it</a></li>
      <li><a href="/accounts/${accountId}/usage">Usage</a></li>
      <li><a href="/accounts/${accountId}/ledger">Ledger</a></li>
      <li><a href="/accounts/${accountId}/keys">Keys</a></li>
      <li><a href="/accounts/${accountId}/members">Members and invitations</a></li>
      <li><a href="/operator/audit?account=${accountId}">Audit log of this account</a></li>
    </ul>
    <h2>Settings</h2>
    ${form(asked, { action: path, button: "Save settings" }, settingFields(asked, account))}
    ${
      isActive
        ? button(asked, { action: `${path}/suspend`, button: "Suspend account", isDanger: true })
        : button(asked, { action: `${path}/activate`, button: "Activate account" })
    }
    ${moneyForms(asked, path)}`;
}

async function change(parts: Parts, asked: SignedIn): Promise<Answer> {
  const account = await accountIn(parts, asked);
  const { accountId, name, requestsPerMinute } = account;
  const settings = readSettings(asked);
  if (!settings) return again(name, await detail(parts, asked, account));
  const before = { name, requestsPerMinute };
  const deed = { action: "account.change", accountId, target: accountId, before, after: settings } as const;
  await noteAround(parts, whoOf(asked), deed, async () => {
    await parts.authQuota.updateAccount({ accountId, ...settings });
    return { result: undefined };
  });
  return redirect(`${base}/${accountId}`, "The settings are saved.");
}

async function switchAccount(parts: Parts, asked: SignedIn, turn: "suspend" | "activate"): Promise<Answer> {
  const account = await accountIn(parts, asked);
  const { accountId, name } = account;
  const status = turn === "suspend" ? AccountStatus.SUSPENDED : AccountStatus.ACTIVE;
  const after = { status: turn === "suspend" ? "suspended" : "active" };
  const before = { status: statusOf(account) };
  const deed = { action: `account.${turn}`, accountId, target: accountId, before, after } as const;
  await noteAround(parts, whoOf(asked), deed, async () => {
    await parts.authQuota.updateAccount({ accountId, status });
    return { result: undefined };
  });
  return redirect(`${base}/${accountId}`, `The account ${name} is ${after.status}.`);
}
