import { timestampDate } from "@bufbuild/protobuf/wkt";
import { KeyStatus, type Key } from "#proto/authquota/v1/authquota_pb.ts";
import { CallResult, LineKind, type LedgerLine } from "#proto/billing/v1/billing_pb.ts";
import { EndCause, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { isId } from "../../ids.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { activityNavigation } from "../../html/activity-navigation.ts";
import { money } from "../../html/amounts.ts";
import { callFigures, seconds } from "../../html/call-figures.ts";
import { endCauseName } from "../../html/call-words.ts";
import { ago, badge, choice, emptyState, input, nextPage, tableOf } from "../../html/controls.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, redirect } from "../../html/route.ts";
import type { AccountRequest, PageResponse, Route } from "../../html/route.ts";
import { count } from "../../html/units.ts";

const pageSize = 50;
const maxModel = 256;
const fields = ["key", "model", "result", "rid"] as const;

/** Every call that was charged or ended without a charge, newest first. */
export function activityRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/activity"), "usage.view", (request) => show(deps, request)),
    accountRoute(get("/activity/newest"), "usage.view", async (request) => ({
      kind: "fragment",
      body: await newest(deps, request, readFilter(request)),
    })),
  ];
}

const newest = async (deps: Deps, request: AccountRequest, filter: Filter): Promise<Markup> =>
  callsTable(request, await readActivity(deps, request, filter), filter);

const results = [
  ["", "all"],
  ["whole", "complete"],
  ["failed", "ended early or failed"],
] as const;

type Filter = { given: Form; keyId: string; model: string; result: string; beforeLineId: string };

function readFilter({ query }: AccountRequest): Filter {
  const given = createForm(Object.fromEntries(fields.map((name) => [name, query(name)])));
  const before = query("before");
  const beforeLineId = ridTimeMs(before) === undefined ? "" : before;
  const [key, model, result] = [given.typed("key"), given.typed("model"), given.typed("result")];
  return {
    given,
    keyId: isId(key) ? key : "",
    model: model.replaceAll("\0", "").slice(0, maxModel),
    result,
    beforeLineId,
  };
}

type Activity = {
  calls: { line: LedgerLine; call: UsageRecorded }[];
  /** The last line that was looked at; empty when there is none after it. */
  nextLineId: string;
  keys: readonly Key[];
};

/** Up to a page of calls that the filter lets through, or fewer from as many lines as are looked at for a page. */
async function readActivity(deps: Deps, { accountId }: AccountRequest, filter: Filter): Promise<Activity> {
  const { keyId, model, beforeLineId } = filter;
  const result = resultOf(filter);
  const isPart = isFiltered(filter);
  const limit = isPart ? pageSize : pageSize + 1;
  const asked = { accountId, kind: LineKind.CHARGE, beforeLineId, limit, keyId, model, result };
  const [{ keys }, { lines, nextBeforeLineId }] = await Promise.all([
    deps.authQuota.listKeys({ accountId, includeDeleted: true }),
    deps.billing.listLedgerLines(asked),
  ]);
  const shown = lines.slice(0, pageSize);
  const calls = shown.flatMap((line) => (line.usage ? [{ line, call: line.usage }] : []));
  const last = lines.length > pageSize ? shown.at(-1)?.lineId : undefined;
  return { calls, keys, nextLineId: isPart ? nextBeforeLineId : (last ?? "") };
}

const isFiltered = ({ keyId, model, result }: Filter): boolean => keyId !== "" || model !== "" || result !== "";

function resultOf({ result }: Filter): CallResult {
  if (result === "") return CallResult.UNSPECIFIED;
  return result === "whole" ? CallResult.WHOLE : CallResult.OTHER;
}

async function show(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const filter = readFilter(request);
  const base = `/accounts/${request.accountId}`;
  const rid = filter.given.typed("rid").toLowerCase();
  if (ridTimeMs(rid) !== undefined) return redirect(`${base}/calls/${rid}`);
  if (rid !== "") filter.given.refuse("rid", "Give a request id such as 019a9f3c-0000-7000-8000-000000000001.");
  const activity = await readActivity(deps, request, filter);
  const { keyId: key, model, result, beforeLineId } = filter;
  const chosen = new URLSearchParams({ key, model, result });
  const older = new URLSearchParams({ key, model, result, before: activity.nextLineId });
  // What is new comes to the first page by itself.
  const live = html` hx-get="${base}/activity/newest?${chosen.toString()}" hx-trigger="every 5s" hx-swap="innerMorph"`;
  const isWrong = filter.given.errors.size > 0;
  return page(
    "Activity",
    html`${isWrong && html`<p class="problems" role="alert">${[...filter.given.errors.values()].join(" ")}</p>`}
      ${activityNavigation(base, "/activity")} ${filterForm(filter, activity.keys, `${base}/activity`)}
      <div${beforeLineId === "" && live}>${callsTable(request, activity, filter)}</div>
      ${activity.nextLineId !== "" && nextPage(`${base}/activity?${older.toString()}`)}
      <p class="hint">
        A call is here moments after it ended. Calls that were refused before they reached a provider are free and have
        a list of their own.
      </p>`,
    {
      ...(isWrong && { status: 422 }),
      actions: html`<a class="button outline" href="${base}/ledger.csv">Download as CSV</a>`,
    },
  );
}

function filterForm({ given, keyId, model, result }: Filter, keys: readonly Key[], path: string): Markup {
  const named = keys.map((key) => [key.keyId, nameOfKey(key)] as const);
  return html`<form method="get" action="${path}" class="filters">
    ${choice(given, { name: "key", label: "Key", value: keyId, choices: [["", "all"], ...named] })}
    ${input(given, { name: "model", label: "Model", value: model, maxLength: maxModel, isOptional: true })}
    ${choice(given, { name: "result", label: "Result", value: result, choices: results })}
    ${input(given, { name: "rid", label: "Request id", maxLength: 100, isOptional: true })}
    <p><button class="outline">Show</button></p>
  </form>`;
}

const nameOfKey = ({ keyId, name, status }: Key): string =>
  `${name || keyId}${status === KeyStatus.DELETED ? " (deleted)" : ""}`;

function nothingFound(base: string, { nextLineId }: Activity, filter: Filter): Markup {
  const quickStart = html`<a class="button" href="${base}/quick-start">Quick start</a>`;
  if (!isFiltered(filter)) return emptyState("No calls here", "Calls show up here as soon as they end.", quickStart);
  const clear = html`<a class="button outline" href="${base}/activity">Clear the filters</a>`;
  const rest = nextLineId === "" ? "No call is like that." : "None of those that were looked at: older ones come next.";
  return emptyState("No calls match", rest, clear);
}

const head = ["When", "Model and key", "Result", "Cost", "Tokens in", "Tokens out", "Latency", "Speed"];

function callsTable({ accountId }: AccountRequest, activity: Activity, filter: Filter): Markup {
  const { calls, keys } = activity;
  const base = `/accounts/${accountId}`;
  if (calls.length === 0) return nothingFound(base, activity, filter);
  const names = new Map(keys.map((key) => [key.keyId, nameOfKey(key)]));
  const rows = calls.map(({ line, call }) => row(base, line, { call, keyName: names.get(call.keyId) ?? call.keyId }));
  return tableOf(
    { caption: "Calls, newest first", head, attributes: html` class="calls"` },
    html`<tbody>
      ${rows}
    </tbody>`,
  );
}

type Call = { call: UsageRecorded; keyName: string };

function row(base: string, { rid, amountNanos }: LedgerLine, { call, keyName }: Call): Markup {
  const { startedAt, usage, streamed } = call;
  const { tokensIn, tokensOut, firstMs, allMs } = callFigures(call);
  const first = streamed && firstMs !== undefined && html`<small>first token ${seconds(firstMs)}</small>`;
  return html`<tr>
    <th scope="row">
      <a href="${base}/calls/${rid}">${startedAt ? ago(timestampDate(startedAt)) : rid}</a>
      <small>${streamed ? "stream" : "whole answer"}</small>
    </th>
    <td>${call.modelRequested}<small>${keyName}</small></td>
    <td>${resultBadge(call)}</td>
    <td class="amount">${money(-amountNanos)}</td>
    <td class="amount">${count(tokensIn)}${part(usage?.cacheReadTokens, "cached")}</td>
    <td class="amount">${count(tokensOut)}${part(usage?.reasoningTokens, "reasoning")}</td>
    <td class="amount">${allMs === undefined ? "–" : seconds(allMs)}${first}</td>
    <td class="amount">${speed(tokensOut, { fromMs: streamed ? (firstMs ?? 0) : 0, toMs: allMs })}</td>
  </tr>`;
}

const part = (units: bigint | undefined, words: string): Markup | undefined =>
  units ? html`<small>${count(units)} ${words}</small>` : undefined;

/** Tokens per second of the answer, from its first byte on when it was streamed. */
function speed(tokens: bigint, { fromMs, toMs }: { fromMs: number; toMs: number | undefined }): string {
  if (toMs === undefined || toMs <= fromMs || tokens === 0n) return "–";
  return `${Math.round(Number(tokens) / ((toMs - fromMs) / 1_000)).toLocaleString("en-US")} tok/s`;
}

function resultBadge({ endCause, httpStatus }: UsageRecorded): Markup {
  if (endCause === EndCause.COMPLETE) return badge(String(httpStatus || "complete"), "success");
  const tone = endCause === EndCause.CLIENT_GONE ? "secondary" : "danger";
  return html`${badge(String(httpStatus || "no answer"), tone)}<small>${endCauseName(endCause)}</small>`;
}
