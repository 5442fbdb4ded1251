import { html, type Markup } from "./html.ts";

export type Tab = { id: string; label: string; body: Markup };

/** Parts of which one is seen at a time; without script, as radio buttons of the browser. `about` names the group. */
export function tabs(about: string, all: readonly Tab[]): Markup {
  const parts = all.map(
    ({ id, label, body }, index) =>
      html`<input class="hidden" type="radio" name="tab" id="tab-${id}" ${index === 0 && html` checked`} />
        <label for="tab-${id}">${label}</label>
        <div class="panel">${body}</div>`,
  );
  return html`<div class="tabs" role="radiogroup" aria-label="${about}">${parts}</div>`;
}
