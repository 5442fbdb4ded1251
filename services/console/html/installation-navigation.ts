import { html, type Markup } from "./html.ts";

const pages = [
  ["/operator/installation", "State"],
  ["/operator/installation/catalog", "Catalog"],
  ["/operator/reports", "Reports"],
  ["/operator/quarantine", "Quarantine"],
  ["/operator/maintenance", "Maintenance"],
] as const;

export type InstallationPage = (typeof pages)[number][0];

/** Paths of all pages about the installation begin with one of these. */
export const installationPaths: readonly string[] = pages.map(([path]) => path);

/** The way between the pages about the installation. */
export function installationNavigation(here: InstallationPage): Markup {
  const links = pages.map(
    ([path, label]) => html`<li><a href="${path}" ${path === here && html` aria-current="page"`}>${label}</a></li>`,
  );
  return html`<nav aria-label="Installation">
    <ul>
      ${links}
    </ul>
  </nav>`;
}
