import { choice } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { createForm } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { readLoadedModels, type LoadedModel } from "../../loaded-models.ts";
import type { Deps } from "../../deps.ts";
import { may } from "../../permissions.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { keyVariable, snippets, type Snippet } from "../../html/snippets.ts";

/** How to ask the API: its address and code that works. */
export function quickStartRoutes(deps: Deps): Route[] {
  return [accountRoute(get("/quick-start"), "overview.view", (request) => show(deps, request))];
}

const endpoints = new Set(snippets.map(({ endpoint }) => endpoint));

async function show({ relays, apiUrl }: Deps, request: AccountRequest): Promise<PageResponse> {
  const models = (await readLoadedModels(relays))?.models ?? [];
  const usable = models.filter((model) => model.endpoints.some((endpoint) => endpoints.has(endpoint)));
  const wanted = request.query("model");
  const chosen = usable.find(({ name }) => name === wanted) ?? usable[0];
  const baseUrl = apiUrl.origin;
  const path = `/accounts/${request.accountId}`;
  return page(
    "Quick start",
    html`<p>
        The API is at <code id="base-url">${baseUrl}</code> ${copyButton("base-url", "the base URL")}. It answers like
        OpenAI's and Anthropic's: their clients, and all that is made for them, need this address and a key.
      </p>
      <p>
        ${may(request.roles, "keys.create") && html`<a href="${path}/keys/new">Make a key</a>, then put`}
        ${!may(request.roles, "keys.create") && "Put"} its secret into the environment variable
        <code>${keyVariable}</code>: it belongs neither into code nor into a repository.
      </p>
      ${usable.length === 0 ? noModels : modelChoice(`${path}/quick-start`, usable, chosen)}
      ${snippets.map((snippet) => section(snippet, baseUrl, chosen))}
      <p><a href="${path}/models">All models and their prices</a></p>`,
  );
}

// By what each kind of file is run; curl's is typed as it is.
const runners = { sh: "sh", mjs: "node", py: "python3" };

const placeholder = "name-of-a-model";

const noModels = html`<p class="notice">
  The list of models is not available right now. Put the name of one in the place of <code>${placeholder}</code>.
</p>`;

function modelChoice(action: string, models: LoadedModel[], chosen: LoadedModel | undefined): Markup {
  const choices = models.map(({ name }) => [name, name] as const);
  return html`<form class="filters" method="get" action="${action}">
    ${choice(createForm({}), { name: "model", label: "Model in the examples", value: chosen?.name ?? "", choices })}
    <p><button>Show</button></p>
  </form>`;
}

function section(snippet: Snippet, baseUrl: string, chosen: LoadedModel | undefined): Markup {
  const { id, title, install, endpoint, kind } = snippet;
  const file = `ask.${kind}`;
  if (chosen && !chosen.endpoints.includes(endpoint)) {
    return html`<h2>${title}</h2>
      <p>${chosen.name} cannot be asked at <code>${endpoint}</code>. Choose another model.</p>`;
  }
  const text = snippet.text({ baseUrl, model: chosen?.name ?? placeholder });
  return html`<h2>${title}</h2>
    ${
      install !== "" &&
      html`<p>
        First <code>${install}</code>, then save this as <code>${file}</code> and run
        <code>${runners[kind]} ${file}</code>.
      </p>`
    }
    <div class="scroll" tabindex="0" role="region" aria-label="Code for ${title}">
      <pre><code id="${id}">${text}</code></pre>
    </div>
    <p>${copyButton(id, `the code for ${title}`)}</p>`;
}
