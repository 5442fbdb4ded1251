import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { GetMaintenanceResponse } from "#proto/authquota/v1/authquota_pb.ts";
import { CircuitState, type GetStateResponse, type Upstream } from "#proto/relay/v1/relay_pb.ts";
import { badge, instant, table } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { catalogPage } from "./installation-catalog.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import { maintenanceNotice } from "./maintenance.ts";
import type { Deps } from "../../deps.ts";
import type { RelayState } from "../../relays.ts";
import { get, operatorRoute, page, type PageResponse, type Route } from "../../html/route.ts";

const base = "/operator/installation";
const action = "installation.view";

/** The relay processes, the upstreams and the catalog, as they are now. */
export function installationRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/installation"), action, () => statePage(deps)),
    operatorRoute(get("/installation/state"), action, async () => ({
      kind: "fragment",
      body: await stateNow(deps),
    })),
    operatorRoute(get("/installation/catalog"), action, (request) => catalogPage(deps, request)),
  ];
}

async function statePage(deps: Deps): Promise<PageResponse> {
  return page(
    "Installation",
    html`${installationNavigation(base)}
      <div hx-get="${base}/state" hx-trigger="every 5s" hx-swap="innerMorph">${await stateNow(deps)}</div>`,
  );
}

/** All that moves; with script it is asked for again every few seconds. */
async function stateNow(deps: Deps): Promise<Markup> {
  const [relays, maintenance] = await Promise.all([deps.relays.states(), readMaintenance(deps)]);
  // What comes and goes has a part of its own: else the tables would change places, and a keyboard's focus be lost.
  return html`<p>As of ${second(new Date(deps.clock.nowMs()))}.</p>
    <div>${problemsOf(relays, maintenance)} ${maintenance && maintenanceNotice(maintenance, relays)}</div>
    ${table("Relay processes", ["Process", "State", "Calls", "Started", "Catalog", "Loaded"], relays.map(processRow))}
    ${table("Upstreams", ["Upstream", "Address", "Formats", "Circuit", "Calls under way"], upstreamRows(relays))}`;
}

/** The page is for when something is down: it says so instead of being down, too. */
async function readMaintenance({ authQuota, log }: Deps): Promise<GetMaintenanceResponse | undefined> {
  try {
    return await authQuota.getMaintenance({});
  } catch (error) {
    log.warn({ err: error }, "failed to read the maintenance state from auth-quota");
    return undefined;
  }
}

function problemsOf(relays: RelayState[], maintenance: GetMaintenanceResponse | undefined): Markup {
  const silent = relays.filter(({ state }) => state === undefined).length;
  const catalogs = relays.map(({ state }) => state?.catalog).filter((one) => one !== undefined);
  const unready = relays.filter(({ state }) => state && state.notReady.length > 0).length;
  const sentences = [
    silent > 0 && `${silent} of ${relays.length} relay processes ${silent === 1 ? "does" : "do"} not answer.`,
    unready > 0 &&
      `${unready} of ${relays.length} relay processes ${unready === 1 ? "is" : "are"} not ready for calls.`,
    new Set(catalogs.map(({ contentHash }) => contentHash)).size > 1 &&
      "The relay processes do not all have the same catalog: calls are priced and routed differently.",
    catalogs.some(({ problem }) => problem !== "") &&
      "A catalog file was refused, so that an older one is in force: see Catalog.",
    maintenance === undefined && "The auth-quota service does not answer.",
  ].filter((sentence) => sentence !== false);
  if (sentences.length === 0) {
    return html`<p>All of the relay processes answer (${relays.length}), are ready and have the same catalog.</p>`;
  }
  return html`<div class="problems">
    <ul>
      ${sentences.map((sentence) => html`<li>${sentence}</li>`)}
    </ul>
  </div>`;
}

function processRow({ address, state, problem }: RelayState): Markup {
  const { catalog } = state ?? {};
  return html`<tr>
    <th scope="row">${address}</th>
    <td>${state ? stateWords(state) : `does not answer: ${problem}`}</td>
    <td>${state ? state.liveCalls : "–"}</td>
    <td>${at(state?.startedAt)}</td>
    <td><code>${catalog?.contentHash.slice(0, 12) ?? "–"}</code></td>
    <td>${at(catalog?.loadedAt)}</td>
  </tr>`;
}

function stateWords({ isDraining, notReady }: GetStateResponse): Markup {
  if (isDraining) return badge("stopping", "warning");
  if (notReady.length === 0) return badge("ready", "success");
  return html`${badge("not ready", "danger")} ${notReady.join("; ")}`;
}

const at = (time: Timestamp | undefined): Markup | string => (time ? instant(timestampDate(time)) : "–");

/** An instant to the second: circuits are open for less than a minute. */
const second = (time: Date): Markup =>
  html`<time datetime="${time.toISOString()}">${time.toISOString().slice(0, 19).replace("T", " ")}</time>`;

type RelayUpstream = { address: string; upstream: Upstream };

/** One row per upstream, with what each process sees of it. */
function upstreamRows(relays: RelayState[]): Markup[] {
  const byName = new Map<string, RelayUpstream[]>();
  for (const { address, state } of relays) {
    for (const upstream of state?.catalog?.upstreams ?? []) {
      byName.set(upstream.name, [...(byName.get(upstream.name) ?? []), { address, upstream }]);
    }
  }
  return [...byName].map(([name, seen]) => {
    const urls = new Set(seen.map(({ upstream }) => upstream.baseUrl));
    const formats = new Set(seen.flatMap(({ upstream }) => upstream.dialects));
    return html`<tr>
      <th scope="row">${name}</th>
      <td>${[...urls].join(", ")}</td>
      <td>${[...formats].join(", ")}</td>
      <td>${perProcess(seen, circuitWords)}</td>
      <td>${perProcess(seen, ({ liveCalls, maxCalls }) => html`${liveCalls} of ${maxCalls}`)}</td>
    </tr>`;
  });
}

function perProcess(seen: RelayUpstream[], words: (upstream: Upstream) => Markup): Markup {
  const [first, ...others] = seen;
  if (first && others.length === 0) return words(first.upstream);
  return html`<ul class="values">
    ${seen.map(({ address, upstream }) => html`<li>${address}: ${words(upstream)}</li>`)}
  </ul>`;
}

function circuitWords({ circuit, closedUntil }: Upstream): Markup {
  const until = closedUntil && html`, until ${second(timestampDate(closedUntil))}`;
  if (circuit === CircuitState.CLOSED) return badge("in use", "success");
  if (circuit === CircuitState.HALF_OPEN) return html`${badge("on trial", "warning")} one call tries it`;
  if (circuit === CircuitState.OPEN) return html`${badge("not used", "danger")} it failed too often${until}`;
  if (circuit === CircuitState.COOLING_DOWN) return html`${badge("not used", "warning")} it asked for a pause${until}`;
  return html`not told`;
}
