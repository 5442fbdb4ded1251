import { html, type Markup } from "./html.ts";

/**
 * Copies the text of the element with this id; hidden until static/console.js makes it work. `about` is for people who
 * hear it.
 */
export function copyButton(id: string, about: string): Markup {
  return html`<button type="button" class="outline small" data-copy="${id}" hidden>
    Copy<span class="hidden"> ${about}</span>
  </button>`;
}
