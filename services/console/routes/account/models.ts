import { money } from "../../html/amounts.ts";
import { emptyState, figure, nextPage, pageNumberOf } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { readLoadedModels, type LoadedModel, type PriceRow } from "../../loaded-models.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { count } from "../../html/units.ts";
import { may } from "../../permissions.ts";

const pageSize = 100;

/** The models and their prices. */
export function modelRoutes(deps: Deps): Route[] {
  return [accountRoute(get("/models"), "models.view", (request) => list(deps, request))];
}

async function list({ relays }: Deps, request: AccountRequest): Promise<PageResponse> {
  const loaded = await readLoadedModels(relays);
  if (!loaded) return page("Models", noRelay, { status: 503 });
  const wanted = request.query("name").slice(0, 256);
  const number = pageNumberOf(request);
  const found = loaded.models.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
  const cards = found.slice(number * pageSize, (number + 1) * pageSize).map((model) => card(request, model));
  const path = `/accounts/${request.accountId}/models`;
  const more = new URLSearchParams({ name: wanted, page: String(number + 1) });
  return page(
    "Models",
    html`${loaded.isChanging && changing}
      <form class="filters" method="get" action="${path}">
        <div class="field">
          <label for="name">Part of the name</label>
          <input id="name" name="name" type="search" maxlength="256" autocomplete="off" value="${wanted}" />
        </div>
        <p><button>Show</button></p>
      </form>
      ${
        cards.length === 0
          ? emptyState("No such model", "No model here has this in its name.")
          : html`<p class="hint">Prices are in USD per 1,000,000 units; the exact one is shown when you point at it.</p>
              ${cards}`
      }
      ${found.length > (number + 1) * pageSize && nextPage(`${path}?${more.toString()}`)}`,
  );
}

const noRelay = html`<p>
  The models and their prices are not available right now: none of the processes that know them answers. Try again in a
  minute. If it lasts, tell your operator.
</p>`;

const changing = html`<p class="notice" role="status">
  A change of the models or prices is being rolled out. What is shown here may not hold for all calls yet.
</p>`;

/** How long calls and answers may be; nothing where that is not known. */
function sizes({ contextTokens, maxOutputTokens }: LoadedModel): Markup | undefined {
  if (contextTokens === 0n && maxOutputTokens === 0n) return undefined;
  return html`<p>
    ${contextTokens > 0n && `Context of ${count(contextTokens)} tokens. `}
    ${maxOutputTokens > 0n && `Answers of up to ${count(maxOutputTokens)} tokens.`}
  </p>`;
}

function card(request: AccountRequest, model: LoadedModel): Markup {
  const { name, endpoints, prices } = model;
  const isChat = endpoints.includes("/v1/chat/completions") && may(request.roles, "playground.use");
  const playground = `/accounts/${request.accountId}/playground?${new URLSearchParams({ model: name }).toString()}`;
  return html`<section class="card model">
    <h2>${name}</h2>
    ${sizes(model)} ${prices.map((one) => priceRow(one))}
    <p class="row-of">${endpoints.map((endpoint) => html`<code>${endpoint}</code>`)}</p>
    ${
      isChat &&
      html`<p>
        <a class="button outline" href="${playground}">Try<span class="hidden"> ${name} in the playground</span></a>
      </p>`
    }
  </section>`;
}

function priceRow({ condition, prices }: PriceRow): Markup {
  return html`${condition !== "" && html`<p>${condition}:</p>`}
  ${
    prices.length === 0
      ? html`<p>free of charge</p>`
      : html`<dl class="figures-row">${prices.map(({ bucket, nanos }) => figure(bucket, money(nanos)))}</dl>`
  }`;
}
