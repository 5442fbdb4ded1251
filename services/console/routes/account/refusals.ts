import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { KeyStatus, type Key, type RefusalCount, type RefusedCall } from "#proto/authquota/v1/authquota_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { activityNavigation } from "../../html/activity-navigation.ts";
import { ago, badge, choice, emptyState, tableOf } from "../../html/controls.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import { refusalWords } from "../../html/refusal-words.ts";
import { count } from "../../html/units.ts";
import { accountRoute, get, page } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import type { Deps } from "../../deps.ts";

/** Calls that were refused before they reached a provider, with what to do about each. */
export function refusalRoutes(deps: Deps): Route[] {
  return [accountRoute(get("/activity/refused"), "usage.view", (request) => show(deps, request))];
}

const hourMs = 3_600_000;
const spans = [
  ["hour", "last hour", hourMs],
  ["day", "last 24 hours", dayMs],
  ["week", "last 7 days", 7 * dayMs],
] as const;
const usualSpan = spans[1];

async function show({ authQuota, clock }: Deps, { accountId, query }: AccountRequest): Promise<PageResponse> {
  const base = `/accounts/${accountId}`;
  const given = createForm({ key: query("key"), span: query("span") });
  const [span, words, lengthMs] = spans.find(([name]) => name === query("span")) ?? usualSpan;
  const { keys } = await authQuota.listKeys({ accountId, includeDeleted: true });
  const keyId = keys.find((key) => key.keyId === query("key"))?.keyId ?? "";
  const since = timestampFromMs(clock.nowMs() - lengthMs);
  const { counts, calls } = await authQuota.listRefusals({ accountId, keyId, since });
  const names = new Map(keys.map((key) => [key.keyId, nameOfKey(key)]));
  const nameOf = (id: string): string => names.get(id) ?? id;
  return page(
    "Refused calls",
    html`${activityNavigation(base, "/activity/refused")}
      ${filterForm(given, `${base}/activity/refused`, { keys, keyId, span })}
      ${counts.length === 0 && emptyState("Nothing was refused", `No call of a key of this account in the ${words}.`)}
      ${counts.length > 0 && countsTable(counts, nameOf)} ${calls.length > 0 && callsTable(calls, nameOf)}
      <p class="hint">
        Refused calls are free. They are here within seconds, are counted for 7 days, and the last 100 of each key are
        kept, without their contents. Calls with a key that is none are nobody's and not here.
      </p>`,
  );
}

const nameOfKey = ({ keyId, name, status }: Key): string =>
  `${name || keyId}${status === KeyStatus.DELETED ? " (deleted)" : ""}`;

type Shown = { keys: readonly Key[]; keyId: string; span: string };

function filterForm(given: Form, path: string, { keys, keyId, span }: Shown): Markup {
  const named = keys.map((key) => [key.keyId, nameOfKey(key)] as const);
  return html`<form method="get" action="${path}" class="filters">
    ${choice(given, { name: "key", label: "Key", value: keyId, choices: [["", "all"], ...named] })}
    ${choice(given, { name: "span", label: "Counted", value: span, choices: spans.map(([id, label]) => [id, label]) })}
    <p><button class="outline">Show</button></p>
  </form>`;
}

type NameOf = (keyId: string) => string;

function countsTable(counts: readonly RefusalCount[], nameOf: NameOf): Markup {
  const rows = counts.map(({ keyId, reason, status, refusals, minute }) => {
    const { title, advice } = refusalWords(reason);
    return html`<tr>
      <th scope="row">${title}<small>${advice}</small></th>
      <td>${badge(String(status), "danger")}</td>
      <td>${nameOf(keyId)}</td>
      <td class="amount">${count(refusals)}</td>
      <td>${minute && ago(timestampDate(minute))}</td>
    </tr>`;
  });
  return tableOf(
    { caption: "Why calls were refused", head: ["Reason and what to do", "Status", "Key", "Calls", "Last"] },
    html`<tbody>
      ${rows}
    </tbody>`,
  );
}

function callsTable(calls: readonly RefusedCall[], nameOf: NameOf): Markup {
  const rows = calls.map(({ rid, keyId, reason, status, endpoint, model, detail }) => {
    return html`<tr>
      <th scope="row">${ago(new Date(ridTimeMs(rid) ?? 0))}<small class="id">${rid}</small></th>
      <td>${badge(String(status), "danger")}<small>${refusalWords(reason).title}</small></td>
      <td>${endpoint}${model !== "" && html`<small>${model}</small>`}</td>
      <td>${nameOf(keyId)}</td>
      <td>${detail}</td>
    </tr>`;
  });
  return tableOf(
    { caption: "The newest of them", head: ["When and request id", "Result", "Endpoint and model", "Key", "Detail"] },
    html`<tbody>
      ${rows}
    </tbody>`,
  );
}
