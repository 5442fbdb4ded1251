import type { Assets } from "./assets.ts";
import { html, type Markup } from "./html.ts";
import { may, type Role } from "./permissions.ts";
import type { Visitor } from "./route.ts";

export type Frame = {
  title: string;
  body: Markup;
  assets: Pick<Assets, "styleUrl" | "iconUrl">;
  /** What the page says first: that something was done. */
  flash?: string | undefined;
  visitor?: Visitor | undefined;
  /** The account that the page is about. */
  accountId?: string | undefined;
  path?: string;
  csrfField?: Markup;
  /** What is wrong in the form that came in, by field. */
  errors?: ReadonlyMap<string, string>;
};

/** A whole page. */
export function layout(frame: Frame): Markup {
  const { title, body, assets, flash, visitor, accountId, path = "", csrfField, errors } = frame;
  const signedIn = visitor?.session.isComplete ? visitor : undefined;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} – Relay console</title>
        <link rel="stylesheet" href="${assets.styleUrl}" />
        <link rel="icon" href="${assets.iconUrl}" type="image/svg+xml" />
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header>
          <p class="brand"><a href="/">Relay console</a></p>
          ${signedIn && mainNavigation(signedIn, path)} ${signedIn && csrfField && signOut(signedIn, csrfField)}
        </header>
        ${signedIn && accountId !== undefined && accountNavigation(accountId, path)}
        <main id="main" tabindex="-1">
          <h1>${title}</h1>
          ${flash !== undefined && html`<p class="notice" role="status">${flash}</p>`} ${errors && problemsOf(errors)}
          ${body}
        </main>
        <footer><p>Amounts are in USD, times in UTC.</p></footer>
      </body>
    </html> `;
}

function problemsOf(errors: ReadonlyMap<string, string>): Markup | undefined {
  if (errors.size === 0) return undefined;
  const lines = [...errors].map(([name, sentence]) => html`<li><a href="#${name}">${sentence}</a></li>`);
  return html`<div class="problems" role="alert">
    <h2>Nothing was changed</h2>
    <ul>
      ${lines}
    </ul>
  </div>`;
}

const link = (href: string, label: string, path: string): Markup =>
  html`<li><a href="${href}" ${isWithin(href, path) && html` aria-current="page"`}>${label}</a></li>`;

const isWithin = (href: string, path: string): boolean => path === href || path.startsWith(`${href}/`);

function mainNavigation({ person }: Visitor, path: string): Markup {
  const roles: Role[] = person.isOperator ? ["operator"] : [];
  return html`<nav aria-label="Console">
    <ul>
      ${link("/accounts", "My accounts", path)}
      ${may(roles, "accounts.manage") && link("/operator/accounts", "All accounts", path)}
      ${may(roles, "people.manage") && link("/operator/people", "People", path)}
      ${may(roles, "audit.view") && link("/operator/audit", "Audit log", path)} ${link("/profile", "My profile", path)}
    </ul>
  </nav>`;
}

function signOut({ person }: Visitor, csrfField: Markup): Markup {
  return html`<form class="sign-out" method="post" action="/sign-out">
    ${csrfField} <span class="who">${person.email}</span> <button class="quiet">Sign out</button>
  </form>`;
}

function accountNavigation(accountId: string, path: string): Markup {
  const base = `/accounts/${accountId}`;
  return html`<nav class="account" aria-label="Account ${accountId}">
    <ul>
      <li class="who">${accountId}</li>
      <li><a href="${base}" ${path === base && html` aria-current="page"`}>Overview</a></li>
      ${link(`${base}/keys`, "Keys", path)} ${link(`${base}/members`, "Members", path)}
    </ul>
  </nav>`;
}
