import type { Key } from "#proto/authquota/v1/authquota_pb.ts";
import { html, type Markup } from "./html.ts";

const maxShown = 100;

/** The tags of keys, each once, in their order. */
export const tagsOf = (keys: readonly Key[]): string[] =>
  [...new Set(keys.flatMap(({ tags }) => tags))].toSorted((a, b) => (a < b ? -1 : 1));

/** Keys by their tags; nothing where no key has one. */
export function tagLinks(path: string, tags: readonly string[], chosen: string): Markup | undefined {
  if (tags.length === 0) return undefined;
  const link = (tag: string, label: string): Markup => {
    const href = tag === "" ? path : `${path}?${new URLSearchParams({ tag }).toString()}`;
    return html`<li><a href="${href}" ${tag === chosen && html` aria-current="page"`}>${label}</a></li>`;
  };
  return html`<nav aria-label="Tags">
    <ul>
      ${link("", "All")} ${tags.slice(0, maxShown).map((tag) => link(tag, tag))}
    </ul>
  </nav>`;
}
