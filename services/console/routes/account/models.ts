import { usd } from "../../html/amounts.ts";
import { nextPage, pageNumberOf, table } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { readLoadedModels, type LoadedModel, type PriceRow } from "../../loaded-models.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";

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
  const rows = found.slice(number * pageSize, (number + 1) * pageSize).map(row);
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
      ${table("Models and their prices in USD per 1,000,000 units", ["Model", "Endpoints", "Prices"], rows)}
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

const row = ({ name, endpoints, prices }: LoadedModel): Markup =>
  html`<tr>
    <th scope="row">${name}</th>
    <td>
      <ul class="values">
        ${endpoints.map((endpoint) => html`<li><code>${endpoint}</code></li>`)}
      </ul>
    </td>
    <td>${prices.map((one) => priceRow(one))}</td>
  </tr>`;

function priceRow({ condition, prices }: PriceRow): Markup {
  const lines = prices.map(({ bucket, nanos }) => html`<li>${bucket}: ${usd(nanos)}</li>`);
  return html`${condition !== "" && html`<p>${condition}:</p>`}
    <ul class="values">
      ${lines.length === 0 ? html`<li>free of charge</li>` : lines}
    </ul>`;
}
