import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Catalog, Model, PriceRow, Route } from "#proto/relay/v1/relay_pb.ts";
import { usd } from "../../html/amounts.ts";
import { input, instant, nextPage, pageNumberOf, table } from "../../html/controls.ts";
import { createForm } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Deps } from "../../deps.ts";
import type { RelayState } from "../../relays.ts";
import { page, type PageResponse, type SignedInRequest } from "../../html/route.ts";
import { upstreamTestPath } from "./upstream-test.ts";
import { bucketNames, bucketsInUse } from "../../html/units.ts";

const pageSize = 50;
const maxName = 256;
const base = "/operator/installation/catalog";
const modelHead = ["Model", "Endpoints", "Prices", "Routes and costs"];

/** The catalog as the relays have loaded it, with what calls cost the operator. */
export async function catalogPage({ relays }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const states = await relays.states();
  const loaded = states.map(({ state }) => state?.catalog).filter((catalog) => catalog !== undefined);
  const shown = loaded.find(({ contentHash }) => contentHash === request.query("hash")) ?? loaded[0];
  const head = ["Process", "Content", "Loaded", "Check of the file as it is now", "Closes the API"];
  const processes = states.filter(({ state }) => state?.catalog).map(processRow);
  const none = html`<p class="problems">No relay process answers: what they have loaded is not known right now.</p>`;
  return page(
    "Catalog",
    html`${installationNavigation(base)}${table("Catalogs as loaded", head, processes)}
    ${isMixed(loaded) && html`<p class="problems">The relay processes do not all have the same catalog.</p>`}
    ${shown ? modelsOf(shown, request) : none}`,
    {
      actions: html`<a class="button outline" href="${base}/versions">Versions</a>
        <a class="button" href="${base}/add">Add an upstream</a>`,
    },
  );
}

const isMixed = (loaded: Catalog[]): boolean =>
  loaded.some(({ contentHash }) => contentHash !== loaded[0]?.contentHash);

function processRow({ address, state }: RelayState): Markup {
  const { contentHash = "", loadedAt, problem = "", isMaintenance = false } = state?.catalog ?? {};
  return html`<tr>
    <th scope="row">${address}</th>
    <td>
      <a href="${base}?hash=${contentHash}"><code>${contentHash.slice(0, 12)}</code></a>
    </td>
    <td>${loadedAt ? instant(timestampDate(loadedAt)) : "–"}</td>
    <td>${problem === "" ? "passed: it is in force" : html`<strong>refused</strong>: ${problem}`}</td>
    <td>${isMaintenance ? html`<strong>yes</strong>` : "no"}</td>
  </tr>`;
}

function modelsOf({ contentHash, models }: Catalog, request: SignedInRequest): Markup {
  const wanted = request.query("name").slice(0, maxName);
  const number = pageNumberOf(request);
  const found = models.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
  const shown = found.slice(number * pageSize, (number + 1) * pageSize);
  const more = new URLSearchParams({ hash: contentHash, name: wanted, page: String(number + 1) });
  const field = { name: "name", label: "Part of the name", value: wanted, maxLength: maxName, isOptional: true };
  return html`<h2>Models</h2>
    <p>SHA-256 of the file: <code>${contentHash}</code></p>
    <form method="get" action="${base}" class="filters">
      <input type="hidden" name="hash" value="${contentHash}" />
      ${input(createForm({}), field)}
      <p><button class="outline">Show</button></p>
    </form>
    ${table("Models, amounts per 1,000,000 units", modelHead, shown.map(row))}
    ${found.length > (number + 1) * pageSize && nextPage(`${base}?${more.toString()}`)}`;
}

const list = (items: Markup[]): Markup =>
  html`<ul class="values">
    ${items}
  </ul>`;

function row(ofModel: Model): Markup {
  const { name, endpoints, prices, routes } = ofModel;
  return html`<tr>
    <th scope="row">${name}</th>
    <td>${list(endpoints.map((endpoint) => html`<li><code>${endpoint}</code></li>`))}</td>
    <td>${prices.map(priceCell)}</td>
    <td>${routes.map((route) => routeCell(route, ofModel))}</td>
  </tr>`;
}

function priceCell({ version, condition, unitPriceNanos }: PriceRow): Markup {
  const lines = bucketsInUse([unitPriceNanos]).map(
    (bucket) => html`<li>${bucketNames[bucket]}: ${usd(unitPriceNanos?.[bucket] ?? 0n)}</li>`,
  );
  return html`<p>${version}${condition !== "" && `, ${condition}`}</p>
    ${lines.length === 0 ? "free of charge" : list(lines)}`;
}

function routeCell(route: Route, { name: id, prices: rows }: Model): Markup {
  const { upstream, model, priority, weight, unitCostNanos } = route;
  const prices = rows[0]?.unitPriceNanos;
  const lines = bucketsInUse([unitCostNanos, prices]).map((bucket) => {
    const cost = unitCostNanos?.[bucket] ?? 0n;
    return html`<li>${bucketNames[bucket]}: ${usd(cost)}${marginWords(prices?.[bucket] ?? 0n, cost)}</li>`;
  });
  return html`<p>${upstream}: ${model}, priority ${priority}, weight ${weight}</p>
    <p>
      <a href="${upstreamTestPath(upstream, id)}">Test<span class="hidden"> ${id} at ${upstream}</span></a>
    </p>
    ${unitCostNanos ? list(lines) : "no costs in the catalog"}`;
}

/** What is left of the model's own price; rows for particular calls have prices of their own. */
export function marginWords(priceNanos: bigint, costNanos: bigint): string {
  if (priceNanos === 0n) return costNanos === 0n ? "" : ", not charged";
  const perMille = ((priceNanos - costNanos) * 1_000n) / priceNanos;
  const words = `${perMille < 0n ? "-" : ""}${abs(perMille) / 10n}.${abs(perMille) % 10n} %`;
  return costNanos > priceNanos ? `, below cost, margin ${words}` : `, margin ${words}`;
}

const abs = (value: bigint): bigint => (value < 0n ? -value : value);
