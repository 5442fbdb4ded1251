import type { Role } from "../permissions.ts";
import { assets } from "./assets.ts";
import { html, type Markup } from "./html.ts";
import { icon } from "./icon.ts";
import { sideBar, sideBarId, type NamedAccount } from "./navigation.ts";
import type { Visitor } from "./route.ts";

export type { NamedAccount } from "./navigation.ts";

/** Where a person sets up a second factor; the layout reminds operators of it. */
export const secondFactorPath = "/profile/second-factor";

export type Frame = {
  title: string;
  body: Markup;
  /** What there is to do on the page, beside its heading. */
  actions?: Markup | undefined;
  /** What the page says first: that something was done. */
  flash?: string | undefined;
  visitor?: Visitor | undefined;
  /** The account that the page is about. */
  accountId?: string | undefined;
  /** What the visitor is in it. */
  roles?: readonly Role[] | undefined;
  /** The accounts that the visitor may switch between. */
  accounts?: readonly NamedAccount[];
  path?: string;
  csrfField?: Markup;
  /** What is wrong in the form that came in, by field. */
  errors?: ReadonlyMap<string, string>;
};

/** A whole page. */
export function layout(frame: Frame): Markup {
  const { title, flash, visitor, path = "", errors } = frame;
  const signedIn = visitor?.session.isComplete ? visitor : undefined;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} – Relay console</title>
        ${assets.styleUrls.map((url) => html`<link rel="stylesheet" href="${url}" />`)}
        <link rel="icon" href="${assets.iconUrl}" type="image/svg+xml" />
        ${signedIn && scriptTags}
      </head>
      <body${signedIn ? html` class="framed"` : html` class="plain"`}>
        <a class="skip" href="#main">Skip to the content</a>
        <header class="top">
          <a class="brand" href="/">${icon("activity")}Relay console</a>
          ${signedIn && html`<button class="ghost" popovertarget="${sideBarId}">${icon("menu")}Menu</button>`}
        </header>
        ${signedIn && barOf(frame, signedIn)}
        <main id="main" tabindex="-1">
          ${signedIn && reminder(signedIn, path)} ${headOf(frame)}
          ${flash !== undefined && html`<p class="toast" role="status">${flash}</p>`} ${errors && problemsOf(errors)}
          ${frame.body}
        </main>
        <footer><span data-times>Amounts are in USD, times in UTC.</span></footer>
      </body>
    </html> `;
}

function barOf({ accountId, roles = [], accounts = [], path = "", csrfField }: Frame, visitor: Visitor): Markup {
  return sideBar({ visitor, accountId, roles, accounts, path, csrfField });
}

const headOf = ({ title, actions }: Frame): Markup =>
  html`<div class="page-head">
    <h1>${title}</h1>
    ${actions && html`<div class="row-of">${actions}</div>`}
  </div>`;

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
// Browsers that know how wait with the first picture for what script does to the page, so that nothing moves after it.
const scriptTags = html`<link rel="stylesheet" href="${assets.chartStyleUrl}" />
  <meta name="htmx-config" content="${htmxConfig}" />
  ${assets.scripts.map(({ url, isModule }) =>
    isModule
      ? html`<script type="module" blocking="render" src="${url}"></script>`
      : html`<script defer src="${url}"></script>`,
  )}`;

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
