import type { UsageBucket } from "#shared/money/pricing.ts";
import { exactMoney } from "../../html/amounts.ts";
import { badge, emptyState, figure, nextPage, pageNumberOf } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { readLoadedModels, type LoadedModel, type PriceRow } from "../../loaded-models.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { share } from "../../html/comparison.ts";
import { bucketNames, count } from "../../html/units.ts";
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
        <p><button class="outline">Show</button></p>
      </form>
      ${
        cards.length === 0
          ? emptyState("No such model", "No model here has this in its name.")
          : html`<p class="hint">
                Prices are in USD per 1,000,000 units; the exact one is shown when you point at it. The share that was
                served is of all calls of the last hour.
              </p>
              <div class="models">${cards}</div>`
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
  return html`<p class="hint">
    ${contextTokens > 0n && `Context of ${count(contextTokens)} tokens. `}
    ${maxOutputTokens > 0n && `Answers of up to ${count(maxOutputTokens)} tokens.`}
  </p>`;
}

const leastCalls = 5n;

/** How the calls of the last hour fared, of everybody. */
export function statusOf({ served, failed }: Pick<LoadedModel, "served" | "failed">): Markup {
  const calls = served + failed;
  // One call that failed says little of a model.
  if (calls < leastCalls) return badge("no recent calls", "secondary");
  const words = `${share(served, calls)} served`;
  if (failed * 100n < calls * 5n) return badge(words, "success");
  return badge(words, failed * 2n < calls ? "warning" : "danger");
}

/** What a model can do, by the endpoints at which it is called. */
const kinds: readonly (readonly [endpoint: string, words: string])[] = [
  ["/v1/chat/completions", "Text"],
  ["/v1/embeddings", "Embeddings"],
  ["/v1/images/generations", "Images"],
  ["/v1/images/edits", "Image editing"],
  ["/v1/audio/speech", "Speech"],
  ["/v1/audio/transcriptions", "Transcription"],
  ["/v1/audio/translations", "Translation"],
  ["/v1/moderations", "Moderation"],
  ["/v1/realtime", "Realtime"],
  ["/v1/videos", "Videos"],
];

/** And by what has a price of its own. */
const abilities: readonly (readonly [bucket: UsageBucket, words: string])[] = [
  ["cacheReadTokens", "Prompt caching"],
  ["reasoningTokens", "Reasoning"],
  ["imageInputTokens", "Image input"],
  ["audioInputTokens", "Audio input"],
  ["audioOutputTokens", "Audio output"],
  ["webSearches", "Web search"],
  ["codeSessions", "Code execution"],
];

export function capabilitiesOf({ endpoints, prices }: Pick<LoadedModel, "endpoints" | "prices">): string[] {
  const priced = new Set(prices.flatMap((row) => row.prices.map(({ bucket }) => bucket)));
  return [
    ...kinds.filter(([endpoint]) => endpoints.includes(endpoint)).map(([, words]) => words),
    ...abilities.filter(([bucket]) => priced.has(bucketNames[bucket])).map(([, words]) => words),
  ];
}

/** Prices that people compare models by; the others are a click away where there are many. */
const mainPrices = new Set([bucketNames.inputTokens, bucketNames.cacheReadTokens, bucketNames.outputTokens]);
const manyPrices = 4;

function card(request: AccountRequest, model: LoadedModel): Markup {
  const { name, endpoints, prices } = model;
  const isChat = endpoints.includes("/v1/chat/completions") && may(request.roles, "playground.use");
  const playground = `/accounts/${request.accountId}/playground?${new URLSearchParams({ model: name }).toString()}`;
  const [own] = prices;
  const isLong = prices.length > 1 || (own?.prices.length ?? 0) > manyPrices;
  const main = own?.prices.filter(({ bucket }) => mainPrices.has(bucket)) ?? [];
  const paths = html`<p class="row-of">${endpoints.map((endpoint) => html`<code>${endpoint}</code>`)}</p>`;
  const all = html`${prices.map((row) => priceRow(row))} ${paths}`;
  return html`<section class="card model">
    <div class="card-head">
      <h2>${name}</h2>
      ${statusOf(model)}
      ${
        isChat &&
        html`<a class="button outline small" href="${playground}"
          >Try<span class="hidden"> ${name} in the playground</span></a
        >`
      }
    </div>
    <p class="row-of">${capabilitiesOf(model).map((words) => badge(words, "secondary"))}</p>
    ${sizes(model)}
    ${
      isLong
        ? html`${main.length > 0 && priceRow({ condition: "", prices: main })}
            <details>
              <summary>All prices and endpoints<span class="hidden"> of ${name}</span></summary>
              <div>${all}</div>
            </details>`
        : all
    }
  </section>`;
}

function priceRow({ condition, prices }: PriceRow): Markup {
  return html`${condition !== "" && html`<p>${condition}:</p>`}
  ${
    prices.length === 0
      ? html`<p>free of charge</p>`
      : html`<dl class="figures-row">${prices.map(({ bucket, nanos }) => figure(bucket, exactMoney(nanos)))}</dl>`
  }`;
}
