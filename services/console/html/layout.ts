import type { Assets } from "./assets.ts";
import { html, type Markup } from "./html.ts";
import { may, type Action, type Role } from "../permissions.ts";
import type { Visitor } from "./route.ts";
import { installationPaths } from "./installation-navigation.ts";

/** Where a person sets up a second factor; the layout reminds operators of it. */
export const secondFactorPath = "/profile/second-factor";

export type Frame = {
  title: string;
  body: Markup;
  assets: Pick<Assets, "styleUrl" | "chartStyleUrl" | "iconUrl" | "scripts">;
  /** What the page says first: that something was done. */
  flash?: string | undefined;
  visitor?: Visitor | undefined;
  /** The account that the page is about. */
  accountId?: string | undefined;
  /** What the visitor is in it. */
  roles?: readonly Role[] | undefined;
  path?: string;
  csrfField?: Markup;
  /** What is wrong in the form that came in, by field. */
  errors?: ReadonlyMap<string, string>;
};

/** A whole page. */
export function layout(frame: Frame): Markup {
  const { title, body, assets, flash, visitor, accountId, roles = [], path = "", csrfField, errors } = frame;
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
        ${signedIn && scriptTags(assets)}
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header>
          <p class="brand"><a href="/">Relay console</a></p>
          ${signedIn && mainNavigation(signedIn, path)} ${signedIn && csrfField && signOut(signedIn, csrfField)}
        </header>
        ${signedIn && accountId !== undefined && accountNavigation({ accountId, roles, path })}
        <main id="main" tabindex="-1">
          ${signedIn && reminder(signedIn, path)}
          <h1>${title}</h1>
          ${flash !== undefined && html`<p class="notice" role="status">${flash}</p>`} ${errors && problemsOf(errors)}
          ${body}
        </main>
        <footer><p>Amounts are in USD, times in UTC.</p></footer>
      </body>
    </html> `;
}

/** Operators have the most to lose: who has put the second factor off is reminded on every page. */
function reminder({ person }: Visitor, path: string): Markup | undefined {
  if (!person.isOperator || person.totpSecret !== null || path.startsWith(secondFactorPath)) return undefined;
  return html`<p class="reminder">
    Your password alone opens this console. <a href="${secondFactorPath}">Set up a second factor</a>
  </p>`;
}

// Neither a style sheet nor a history of its own, and nothing of an answer that failed takes the place of a part.
const htmxConfig = JSON.stringify({ includeIndicatorCSS: false, history: false, noSwap: [204, 304, "4xx", "5xx"] });

/** Only who is signed in gets script: the forms that take passwords need none. */
function scriptTags({ chartStyleUrl, scripts }: Frame["assets"]): Markup {
  const tags = scripts.map(({ url, isModule }) =>
    isModule ? html`<script type="module" src="${url}"></script>` : html`<script defer src="${url}"></script>`,
  );
  return html`<link rel="stylesheet" href="${chartStyleUrl}" />
    <meta name="htmx-config" content="${htmxConfig}" />
    ${tags}`;
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

/** The pages below `href`, and below the others, are the link's. */
function link(href: string, label: string, path: string, others: readonly string[] = []): Markup {
  const isCurrent = [href, ...others].some((one) => isWithin(one, path));
  return html`<li><a href="${href}" ${isCurrent && html` aria-current="page"`}>${label}</a></li>`;
}

const isWithin = (href: string, path: string): boolean => path === href || path.startsWith(`${href}/`);

function mainNavigation({ person }: Visitor, path: string): Markup {
  const roles: Role[] = person.isOperator ? ["operator"] : [];
  return html`<nav aria-label="Console">
    <ul>
      ${link("/accounts", "My accounts", path)}
      ${may(roles, "accounts.manage") && link("/operator/accounts", "All accounts", path)}
      ${may(roles, "search.use") && link("/operator/search", "Search", path)}
      ${may(roles, "vouchers.manage") && link("/operator/vouchers", "Vouchers", path)}
      ${may(roles, "installation.view") && link("/operator/installation", "Installation", path, installationPaths)}
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

type AccountFrame = { accountId: string; roles: readonly Role[]; path: string };

function accountNavigation({ accountId, roles, path }: AccountFrame): Markup {
  const base = `/accounts/${accountId}`;
  const to = (action: Action, below: string, label: string, others?: readonly string[]): Markup | false =>
    may(roles, action) && link(`${base}/${below}`, label, path, others);
  return html`<nav class="account" aria-label="Account ${accountId}">
    <ul>
      <li class="who">${accountId}</li>
      <li><a href="${base}" ${path === base && html` aria-current="page"`}>Overview</a></li>
      ${to("keys.view", "keys", "Keys")} ${to("usage.view", "usage", "Usage", [`${base}/calls`])}
      ${to("ledger.view", "ledger", "Ledger")} ${to("videos.view", "videos", "Videos")}
      ${to("models.view", "models", "Models")} ${to("top-ups.make", "top-up", "Top up")}
      ${to("playground.use", "playground", "Playground")} ${to("overview.view", "quick-start", "Quick start")}
      ${to("members.view", "members", "Members")}
    </ul>
  </nav>`;
}
