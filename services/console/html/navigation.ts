import { may, type Action, type Role } from "../permissions.ts";
import { html, type Markup } from "./html.ts";
import { icon, type IconName } from "./icon.ts";
import { installationPaths } from "./installation-navigation.ts";
import type { Visitor } from "./route.ts";

/** An account with what people call it. */
export type NamedAccount = { accountId: string; name: string };

export type SideBar = {
  visitor: Visitor;
  /** The account that the page is about, and what the visitor is in it. */
  accountId: string | undefined;
  roles: readonly Role[];
  /** Accounts to switch between; that of the page is one of them. */
  accounts: readonly NamedAccount[];
  path: string;
  csrfField: Markup | undefined;
};

/** Id of the side bar, which a button opens where there is no room for it. */
export const sideBarId = "menu";

/** The ways through the console. Without script, too: a browser opens a popover by itself. */
export function sideBar({ visitor, accountId, roles, accounts, path, csrfField }: SideBar): Markup {
  return html`<aside id="${sideBarId}" class="side" popover aria-label="Menu">
    ${switcher(accounts, accountId)} ${accountId !== undefined && accountNavigation({ accountId, roles, path })}
    ${mainNavigation(visitor, path)} ${csrfField && signOut(visitor, csrfField)}
  </aside>`;
}

type Place = { action: Action; href: string; label: string; icon: IconName; others?: readonly string[] };

/** The pages below `href`, and below the others, are the link's. */
function link({ href, label, icon: name, others = [] }: Omit<Place, "action">, path: string): Markup {
  const isCurrent = [href, ...others].some((one) => isWithin(one, path));
  return html`<li><a href="${href}" ${isCurrent && html` aria-current="page"`}>${icon(name)}${label}</a></li>`;
}

const linksFor = (places: readonly Place[], roles: readonly Role[], path: string): Markup[] =>
  places.filter(({ action }) => may(roles, action)).map((place) => link(place, path));

const isWithin = (href: string, path: string): boolean => path === href || path.startsWith(`${href}/`);

function switcher(accounts: readonly NamedAccount[], accountId: string | undefined): Markup | undefined {
  if (accounts.length === 0) return undefined;
  const current = accounts.find((account) => account.accountId === accountId);
  const others = accounts.filter((account) => account !== current);
  const named = ({ accountId: id, name }: NamedAccount): Markup =>
    html`<span>${name}${name !== id && html`<small>${id}</small>`}</span>`;
  return html`<details class="switcher">
    <summary>${icon("building-2")}${current ? named(current) : html`<span>Choose an account</span>`}</summary>
    <ul>
      ${others.map((other) => html`<li><a href="/accounts/${other.accountId}">${named(other)}</a></li>`)}
      <li>
        <a href="/accounts"><span>All my accounts</span></a>
      </li>
    </ul>
  </details>`;
}

type AccountFrame = { accountId: string; roles: readonly Role[]; path: string };

/** What an account has, below its path. */
const accountPlaces: readonly Place[] = [
  { action: "overview.view", href: "/quick-start", label: "Quick start", icon: "rocket" },
  { action: "keys.view", href: "/keys", label: "Keys", icon: "key-round" },
  { action: "playground.use", href: "/playground", label: "Playground", icon: "message-square" },
  { action: "models.view", href: "/models", label: "Models", icon: "boxes" },
  { action: "usage.view", href: "/activity", label: "Activity", icon: "activity", others: ["/calls"] },
  { action: "usage.view", href: "/usage", label: "Usage", icon: "chart-column" },
  { action: "videos.view", href: "/videos", label: "Videos", icon: "clapperboard" },
  { action: "ledger.view", href: "/ledger", label: "Ledger", icon: "receipt-text" },
  { action: "top-ups.make", href: "/top-up", label: "Add credits", icon: "credit-card" },
  { action: "budget.view", href: "/budget", label: "Budget", icon: "gauge" },
  { action: "alerts.view", href: "/alerts", label: "Alerts", icon: "bell" },
  { action: "members.view", href: "/members", label: "Members", icon: "users" },
  { action: "account-audit.view", href: "/audit", label: "Audit log", icon: "shield-check" },
];

function accountNavigation({ accountId, roles, path }: AccountFrame): Markup {
  const base = `/accounts/${accountId}`;
  const places = accountPlaces.map(({ href, others = [], ...place }) => ({
    ...place,
    href: base + href,
    others: others.map((other) => base + other),
  }));
  const isOverview = path === base;
  return html`<nav aria-label="Account ${accountId}">
    <ul>
      <li>
        <a href="${base}" ${isOverview && html` aria-current="page"`}>${icon("layout-dashboard")}Overview</a>
      </li>
      ${linksFor(places, roles, path)}
    </ul>
  </nav>`;
}

const operatorPlaces: readonly Place[] = [
  { action: "business.view", href: "/operator/business", label: "Business", icon: "chart-column" },
  { action: "business.view", href: "/operator/suspicious", label: "Suspicious", icon: "bell" },
  { action: "accounts.manage", href: "/operator/accounts", label: "All accounts", icon: "building-2" },
  { action: "search.use", href: "/operator/search", label: "Search", icon: "search" },
  { action: "vouchers.manage", href: "/operator/vouchers", label: "Vouchers", icon: "ticket" },
  {
    action: "installation.view",
    href: "/operator/installation",
    label: "Installation",
    icon: "server",
    others: installationPaths,
  },
  { action: "people.manage", href: "/operator/people", label: "People", icon: "users" },
  { action: "audit.view", href: "/operator/audit", label: "Audit log", icon: "shield-check" },
];

function mainNavigation({ person }: Visitor, path: string): Markup {
  const roles: Role[] = person.isOperator ? ["operator"] : [];
  const profile = link({ href: "/profile", label: "My profile", icon: "user-round" }, path);
  return html`<nav aria-label="Console">
    ${person.isOperator && html`<h2>Operator</h2>`}
    <ul>
      ${linksFor(operatorPlaces, roles, path)}
    </ul>
    <h2>You</h2>
    <ul>
      <li>
        <a href="/accounts" ${path === "/accounts" && html` aria-current="page"`}>${icon("building-2")}My accounts</a>
      </li>
      ${profile}
    </ul>
  </nav>`;
}

function signOut({ person }: Visitor, csrfField: Markup): Markup {
  return html`<form class="sign-out" method="post" action="/sign-out">
    ${csrfField}<span class="who">${person.email}</span>
    <button class="ghost">${icon("log-out")}Sign out</button>
  </form>`;
}
