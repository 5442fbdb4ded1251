import type { Key } from "#proto/authquota/v1/authquota_pb.ts";
import { UsageGrouping, type UsageSum } from "#proto/billing/v1/billing_pb.ts";
import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { withoutFormula } from "#shared/money/csv.ts";
import { formatUsd } from "#shared/money/money.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import { chartTable } from "../../html/chart.ts";
import { money } from "../../html/amounts.ts";
import { choice, input } from "../../html/controls.ts";
import { csvFile } from "../../html/csv-file.ts";
import { dayOf, lastDayOf, lastDays, readSpan, type Span } from "../../html/days.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { bucketNames, bucketsInUse, count } from "../../html/units.ts";
import { byDay, totalOf, usageRequest } from "../../html/usage-figures.ts";

const defaultDays = 30;
const fields = ["from", "until", "group", "key", "model"] as const;
const modelLength = 256;

const groupings = [
  ["day", "Day"],
  ["model", "Model"],
  ["key", "Key"],
] as const;

type Group = (typeof groupings)[number][0];

const groupCodes: Record<Group, UsageGrouping> = {
  day: UsageGrouping.DAY,
  model: UsageGrouping.MODEL,
  key: UsageGrouping.KEY,
};

type Filter = { span: Span; group: Group; keyId: string; model: string };

/** What the account has used, by day, model or key. */
export function usageRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/usage"), "usage.view", async (request) => show(request, await readUsage(deps, request))),
    accountRoute(get("/usage.csv"), "usage.view", (request) => download(deps, request)),
  ];
}

type UsageView = { given: Form; filter: Filter; keys: readonly Key[]; rows: Row[] };

/** Reads what the query's filters select; with invalid filters, their errors are shown with the default selection. */
async function readUsage({ authQuota, patientBilling, clock }: Deps, request: AccountRequest): Promise<UsageView> {
  const { accountId } = request;
  const { keys } = await authQuota.listKeys({ accountId, includeDeleted: true });
  const given = createForm(Object.fromEntries(fields.map((name) => [name, request.query(name)])));
  const defaultSpan = lastDays(clock.nowMs(), defaultDays);
  const filter = readFilter(given, defaultSpan, keys) ?? { span: defaultSpan, group: "day", keyId: "", model: "" };
  const query = usageRequest({ accountId, ...filter, groupBy: groupCodes[filter.group] });
  const { sums } = await patientBilling.queryUsage(query);
  return { given, filter, keys, rows: rowsOf(sums, { filter, keys, until: defaultSpan.until }) };
}

function readFilter(given: Form, defaultSpan: Span, keys: readonly Key[]): Filter | undefined {
  const span = readSpan(given, defaultSpan);
  const typed = given.typed("group") || "day";
  const group = groupings.map(([name]) => name).find((name) => name === typed);
  if (!group) given.refuse("group", "Choose day, model or key.");
  const keyId = given.typed("key");
  if (keyId !== "" && !keys.some((key) => key.keyId === keyId)) {
    given.refuse("key", "There is no such key in this account.");
  }
  const model = given.typed("model");
  if (model.length > modelLength || /\p{Cc}/u.test(model)) {
    given.refuse("model", `Give the name of a model, at most ${modelLength} characters.`);
  }
  return span && group && given.errors.size === 0 ? { span, group, keyId, model } : undefined;
}

/** A group with its name for people; a day without use has no sum. */
type Row = { group: string; name: string; sum: UsageSum | undefined };

type RowContext = { filter: Filter; keys: readonly Key[]; until: Date };

function rowsOf(sums: readonly UsageSum[], { filter: { span, group }, keys, until }: RowContext): Row[] {
  if (group === "day") {
    // Nothing is used on days to come.
    const past = { from: span.from, until: span.until < until ? span.until : until };
    return byDay(sums, past).map(({ day, sum }) => ({ group: day, name: day, sum }));
  }
  const names = new Map(keys.map(({ keyId, name }) => [keyId, name]));
  const dearest = sums.toSorted((a, b) => Number(b.chargedNanos - a.chargedNanos));
  return dearest.map((sum) => ({
    group: sum.group,
    name: (group === "key" ? names.get(sum.group) : sum.group) || sum.group || "not told",
    sum,
  }));
}

function show({ accountId }: AccountRequest, { given, filter, keys, rows }: UsageView): PageResponse {
  const { span, group, keyId, model } = filter;
  const chosen = { from: dayOf(span.from), until: lastDayOf(span), group, key: keyId, model };
  const path = `/accounts/${accountId}/usage`;
  const isWrong = given.errors.size > 0;
  const wrong = html`<p class="problems" role="alert">
    Some filters are invalid: ${[...given.errors.values()].join(" ")} Showing the last ${defaultDays} days.
  </p>`;
  return page(
    "Usage",
    html`${isWrong && wrong}${filterForm(given, { path, chosen, keys })}${usageTable(filter, rows)}
      <p><a href="${path}.csv?${new URLSearchParams(chosen).toString()}">Download as CSV</a></p>
      <h2>One call</h2>
      <p><a href="/accounts/${accountId}/calls">Find a call by its request id</a></p>`,
    isWrong ? { status: 422 } : {},
  );
}

type FilterForm = { path: string; chosen: Record<(typeof fields)[number], string>; keys: readonly Key[] };

function filterForm(given: Form, { path, chosen, keys }: FilterForm): Markup {
  const named = keys.map(({ keyId, name }) => [keyId, `${name} (${keyId})`] as const);
  return html`<form method="get" action="${path}" class="filters">
    ${input(given, { name: "from", label: "First day", type: "date", value: chosen.from })}
    ${input(given, { name: "until", label: "Last day", type: "date", value: chosen.until })}
    ${choice(given, { name: "group", label: "By", value: chosen.group, choices: groupings })}
    ${choice(given, { name: "key", label: "Key", value: chosen.key, choices: [["", "all"], ...named] })}
    ${input(given, { name: "model", label: "Model", value: chosen.model, maxLength: modelLength, isOptional: true })}
    <p><button>Show</button></p>
  </form>`;
}

function usageTable({ span, group }: Filter, rows: readonly Row[]): Markup {
  const caption = `Charged by ${group} in USD, ${dayOf(span.from)} to ${lastDayOf(span)}`;
  if (rows.length === 0) return html`<p>${caption}: none.</p>`;
  const sums = rows.map(({ sum }) => sum);
  const buckets = bucketsInUse(sums.map((sum) => sum?.usage));
  const used = sums.filter((sum) => sum !== undefined);
  const total = totalOf(used);
  const units = buckets.map((bucket) => used.reduce((all, { usage }) => all + (usage?.[bucket] ?? 0n), 0n));
  const [, heading = ""] = groupings.find(([name]) => name === group) ?? [];
  return chartTable({
    caption,
    head: [heading, "Charged", "Calls", "Failed calls", ...buckets.map((bucket) => bucketNames[bucket])],
    rows: rows.map(({ name, sum }) => ({
      label: name,
      nanos: sum?.chargedNanos ?? 0n,
      isInChartAlone: sum === undefined,
      cells: [
        money(sum?.chargedNanos ?? 0n),
        count(sum?.calls ?? 0n),
        count(sum?.failedCalls ?? 0n),
        ...buckets.map((bucket) => count(sum?.usage?.[bucket] ?? 0n)),
      ],
    })),
    totals: [money(total.chargedNanos), count(total.calls), count(total.failedCalls), ...units.map(count)],
  });
}

async function download(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const looked = await readUsage(deps, request);
  // A file with something else in it than was asked for would pass for the right one.
  if (looked.given.errors.size > 0) return show(request, looked);
  const { filter, rows } = looked;
  const { span, group } = filter;
  const name = `usage-${request.accountId}-${dayOf(span.from)}-to-${lastDayOf(span)}.csv`;
  const names = group === "key" ? ["key_id", "key_name"] : [group];
  const cells = rows.map(({ group: id, name: called, sum }) => [
    ...(group === "key" ? [id, called] : [id]).map((text) => withoutFormula(text)),
    ...[sum?.calls ?? 0n, sum?.failedCalls ?? 0n].map(String),
    formatUsd(sum?.chargedNanos ?? 0n),
    ...usageBuckets.map((bucket) => String(sum?.usage?.[bucket] ?? 0n)),
  ]);
  const units = usageBuckets.map((bucket) => UsageSchema.field[bucket].name);
  const file = { name, header: [...names, "calls", "failed_calls", "charged_usd", ...units], rows: cells };
  return csvFile({ log: deps.log, gone: request.gone }, file);
}
