import { copyButton } from "./copy-button.ts";
import { html, type Markup } from "./html.ts";
import { inPlace } from "./snippets/place.ts";
import { runners, type Snippet } from "./snippets/snippet.ts";
import { snippets } from "./snippets/snippets.ts";
import { tabs } from "./tabs.ts";

/** Stands for the name of a model where none is known. */
export const placeholder = "name-of-a-model";

const endpoints = new Set<string>(snippets.map(({ endpoint }) => endpoint));

/** A model, as far as code asks one. */
type NamedModel = { name: string; endpoints: readonly string[] };

/** The models that some of the code can ask. */
export const usableModels = <Model extends NamedModel>(models: readonly Model[]): Model[] =>
  models.filter((model) => model.endpoints.some((endpoint) => endpoints.has(endpoint)));

/** Code for each tool, one seen at a time; undefined: a model whose name is to be filled in. */
export const snippetTabs = (baseUrl: string, chosen: NamedModel | undefined): Markup =>
  tabs(
    "Tool",
    snippets.map((snippet) => ({
      id: snippet.id,
      label: snippet.title,
      body: panel(snippet, baseUrl, chosen),
    })),
  );

function panel(snippet: Snippet, baseUrl: string, chosen: NamedModel | undefined): Markup {
  const { id, title, endpoint } = snippet;
  if (chosen && !chosen.endpoints.includes(endpoint)) {
    return html`<p>${chosen.name} cannot be asked at <code>${endpoint}</code>. Choose another model.</p>`;
  }
  const text = snippet.text(inPlace(baseUrl), chosen?.name ?? placeholder);
  return html`${howTo(snippet)}
    <div class="scroll" tabindex="0" role="region" aria-label="Code for ${title}">
      <pre><code id="${id}">${text}</code></pre>
    </div>
    <p>${copyButton(id, `the code for ${title}`)}</p>`;
}

function howTo({ install, kind }: Snippet): Markup {
  if (kind === "set-up")
    return html`<p>First <code>${install}</code>, then run this in the folder of your project.</p>`;
  if (install === "") return html`<p>Run this in a shell.</p>`;
  const file = `ask.${kind}`;
  return html`<p>
    First <code>${install}</code>, then save this as <code>${file}</code> and run <code>${runners[kind]} ${file}</code>.
  </p>`;
}
