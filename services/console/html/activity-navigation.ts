import { html, type Markup } from "./html.ts";

const pages = [
  ["/activity", "Calls"],
  ["/activity/refused", "Refused"],
] as const;

/** The way between the calls of an account and those that were refused. */
export function activityNavigation(base: string, here: (typeof pages)[number][0]): Markup {
  const links = pages.map(
    ([path, label]) =>
      html`<li><a href="${base}${path}" ${path === here && html` aria-current="page"`}>${label}</a></li>`,
  );
  return html`<nav aria-label="Activity">
    <ul>
      ${links}
    </ul>
  </nav>`;
}
