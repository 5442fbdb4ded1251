import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { GetMaintenanceResponse } from "#proto/authquota/v1/authquota_pb.ts";
import { figure, form, instant } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import { installationNavigation } from "../../html/installation-navigation.ts";
import type { Deps } from "../../deps.ts";
import type { RelayState } from "../../relays.ts";
import {
  get,
  operatorRoute,
  page,
  post,
  redirect,
  type PageResponse,
  type Route,
  type SignedInRequest,
} from "../../html/route.ts";
import { auditAround, actorOf } from "../../audit-log.ts";

const base = "/operator/maintenance";
const installation = "the installation";

/** The switch that closes the API for everybody. */
export function maintenanceRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/maintenance"), "installation.view", () => show(deps)),
    operatorRoute(get("/maintenance/begin"), "installation.manage", async (request) =>
      page(
        "Close the API?",
        html`<p>
            Every relay refuses every call with 503 about a second later. Calls that are running go on to their end.
          </p>
          ${form(request, { action: `${base}/begin`, button: "Close the API", isDanger: true })}
          <p><a href="${base}">Leave it open</a></p>`,
      ),
    ),
    operatorRoute(get("/maintenance/end"), "installation.manage", async (request) =>
      page(
        "Open the API?",
        html`<p>Calls are taken again about a second later.</p>
          ${form(request, { action: `${base}/end`, button: "Open the API" })}
          <p><a href="${base}">Leave it closed</a></p>`,
      ),
    ),
    operatorRoute(post("/maintenance/begin"), "installation.manage", (request) => turn(deps, request, true)),
    operatorRoute(post("/maintenance/end"), "installation.manage", (request) => turn(deps, request, false)),
  ];
}

async function show({ authQuota, relays }: Deps): Promise<PageResponse> {
  const [maintenance, states] = await Promise.all([authQuota.getMaintenance({}), relays.states()]);
  const { isMaintenance, changedAt } = maintenance;
  const closing = closingRelays(states);
  const ofCatalog =
    closing === 0 ? "does not close the API" : `closes the API on ${closing} of ${states.length} relays`;
  return page(
    "Maintenance",
    html`${installationNavigation(base)}${maintenanceNotice(maintenance, states)}
      <dl class="figures">
        ${figure("Switch", isMaintenance ? "the API is closed" : "the API is open")}
        ${figure("Since", changedAt ? instant(timestampDate(changedAt)) : "it was never switched")}
        ${figure("Catalog", ofCatalog)}
      </dl>
      ${
        isMaintenance
          ? html`<p><a class="button" href="${base}/end">Open the API…</a></p>`
          : html`<p><a class="button" href="${base}/begin">Close the API…</a></p>`
      }`,
  );
}

/** Relays whose catalog closes the API on its own. */
const closingRelays = (relays: RelayState[]): number =>
  relays.filter(({ state }) => state?.catalog?.isMaintenance === true).length;

/** Says on the pages of operators that the API is closed, and by whom. */
export function maintenanceNotice(
  { isMaintenance, changedAt }: GetMaintenanceResponse,
  relays: RelayState[],
): Markup | undefined {
  const closing = closingRelays(relays);
  if (!isMaintenance && closing === 0) return undefined;
  const since = changedAt && html` since ${instant(timestampDate(changedAt))}`;
  return html`<div class="problems">
    ${isMaintenance && html`<p>The API is closed for maintenance${since}.</p>`}
    ${
      closing > 0 &&
      html`<p>
        The catalog of ${closing} of ${relays.length} relay processes closes the API: only a change of the catalog opens
        it.
      </p>`
    }
  </div>`;
}

async function turn(deps: Deps, request: SignedInRequest, isMaintenance: boolean): Promise<PageResponse> {
  const earlier = await deps.authQuota.getMaintenance({});
  const [before, after] = [{ isMaintenance: earlier.isMaintenance }, { isMaintenance }];
  const action = isMaintenance ? "maintenance.begin" : "maintenance.end";
  await auditAround(deps, actorOf(request), { action, target: installation, before, after }, async () => {
    await deps.authQuota.setMaintenance({ isMaintenance });
    return { result: undefined };
  });
  return redirect(base, isMaintenance ? "The API is being closed." : "The API is being opened.");
}
