import { choice } from "../../html/controls.ts";
import { copyButton } from "../../html/copy-button.ts";
import { createForm } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { readLoadedModels, type LoadedModel } from "../../loaded-models.ts";
import type { Deps } from "../../deps.ts";
import { may } from "../../permissions.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { keyVariable } from "../../html/snippets/place.ts";
import { placeholder, snippetTabs, usableModels } from "../../html/snippet-tabs.ts";

/** How to ask the API: its address and code that works. */
export function quickStartRoutes(deps: Deps): Route[] {
  return [accountRoute(get("/quick-start"), "overview.view", (request) => show(deps, request))];
}

async function show({ relays, apiUrl }: Deps, request: AccountRequest): Promise<PageResponse> {
  const usable = usableModels((await readLoadedModels(relays))?.models ?? []);
  const wanted = request.query("model");
  const chosen = usable.find(({ name }) => name === wanted) ?? usable[0];
  const baseUrl = apiUrl.origin;
  const path = `/accounts/${request.accountId}`;
  const mayMake = may(request.roles, "keys.create");
  return page(
    "Quick start",
    html`<section class="card">
        <h2>1. Address and key</h2>
        <p>
          The API is at <code id="base-url">${baseUrl}</code> ${copyButton("base-url", "the base URL")}. It answers like
          OpenAI's and Anthropic's: their clients, and all that is made for them, need this address and a key.
        </p>
        <p>
          ${mayMake && html`<a href="${path}/keys/new">Make a key</a>, then put`} ${!mayMake && "Put"} its secret into
          the environment variable <code>${keyVariable}</code>: it belongs neither into code nor into a repository.
        </p>
      </section>
      <section class="card">
        <h2>2. Call</h2>
        ${usable.length === 0 ? noModels : modelChoice(`${path}/quick-start`, usable, chosen)}
        ${snippetTabs(baseUrl, chosen)}
      </section>
      <section class="card">
        <h2>3. See what it cost</h2>
        <p>
          The call is in <a href="${path}/activity">Activity</a> moments after it ended. Prices are those of
          <a href="${path}/models">the models</a>.
        </p>
      </section>`,
    mayMake ? { actions: html`<a class="button" href="${path}/keys/new">Create key</a>` } : {},
  );
}

const noModels = html`<p class="notice">
  The list of models is not available right now. Put the name of one in the place of <code>${placeholder}</code>.
</p>`;

function modelChoice(action: string, models: LoadedModel[], chosen: LoadedModel | undefined): Markup {
  const choices = models.map(({ name }) => [name, name] as const);
  return html`<form class="filters" method="get" action="${action}">
    ${choice(createForm({}), { name: "model", label: "Model in the examples", value: chosen?.name ?? "", choices })}
    <p><button class="outline">Show</button></p>
  </form>`;
}
