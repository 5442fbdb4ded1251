import type { Key } from "#proto/authquota/v1/authquota_pb.ts";
import { UsageGrouping, type UsageSum } from "#proto/billing/v1/billing_pb.ts";
import { UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { withoutFormula } from "#shared/money/csv.ts";
import { formatUsd } from "#shared/money/money.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import { dayMs } from "#shared/process/clock.ts";
import { chartTable } from "../../html/chart.ts";
import { money } from "../../html/amounts.ts";
import { choice, input } from "../../html/controls.ts";
import { csvFile } from "../../html/csv-file.ts";
import { dayOf, lastDayOf, lastDays, readSpan, spanBefore, type Span } from "../../html/days.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";
import { rangeLinks } from "../../html/range-links.ts";
import { bucketNames, bucketsInUse, count } from "../../html/units.ts";
import { usageSummary } from "../../html/usage-summary.ts";
import { addUp, byDay, totalOf, usageRequest } from "../../html/usage-figures.ts";

const defaultDays = 30;
const fields = ["range", "from", "until", "group", "key", "model"] as const;
const modelLength = 256;

const groupings = [
  ["day", "Day"],
  ["model", "Model"],
  ["key", "Key"],
  ["tag", "Tag of keys"],
] as const;

type Group = (typeof groupings)[number][0];

const groupCodes: Record<Group, UsageGrouping> = {
  day: UsageGrouping.DAY,
  model: UsageGrouping.MODEL,
  key: UsageGrouping.KEY,
  // Billing knows no tags: sums of keys are added up here.
  tag: UsageGrouping.KEY,
};

// The last 24 hours are the one range that is not whole days.
const lastHours = "24h";

/** `range` is 24h, or empty: the days of the span. */
type Filter = { range: string; span: Span; group: Group; keyId: string; model: string };

/** What the account has used, by day, model or key. */
export function usageRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/usage"), "usage.view", (request) => compare(deps, request)),
    accountRoute(get("/usage.csv"), "usage.view", (request) => download(deps, request)),
  ];
}

type UsageView = {
  given: Form;
  filter: Filter;
  keys: readonly Key[];
  sums: readonly UsageSum[];
  rows: Row[];
  before: readonly UsageSum[];
};

/** Reads what the query's filters select; with invalid filters, their errors are shown with the default selection. */
async function readUsage(
  { authQuota, patientBilling, clock }: Deps,
  request: AccountRequest,
  isCompared: boolean,
): Promise<UsageView> {
  const { accountId } = request;
  const { keys } = await authQuota.listKeys({ accountId, includeDeleted: true });
  const given = createForm(Object.fromEntries(fields.map((name) => [name, request.query(name)])));
  const defaultSpan = lastDays(clock.nowMs(), defaultDays);
  const usual = { range: "", span: defaultSpan, group: "day", keyId: "", model: "" } as const;
  const filter = readFilter(given, { nowMs: clock.nowMs(), defaultSpan }, keys) ?? usual;
  const query = usageRequest({ accountId, ...filter, groupBy: groupCodes[filter.group] });
  const earlier = { ...filter, accountId, span: spanBefore(filter.span), groupBy: UsageGrouping.UNSPECIFIED };
  const before = isCompared ? (await patientBilling.queryUsage(usageRequest(earlier))).sums : [];
  const { sums } = await patientBilling.queryUsage(query);
  const rows = rowsOf(sums, { filter, keys, until: defaultSpan.until });
  return { given, filter, keys, sums, rows, before };
}

type Now = { nowMs: number; defaultSpan: Span };

function readChosenSpan(given: Form, { nowMs, defaultSpan }: Now): Span | undefined {
  if (given.typed("range") !== lastHours) return readSpan(given, defaultSpan);
  return { from: new Date(nowMs - dayMs), until: new Date(nowMs) };
}

function readFilter(given: Form, now: Now, keys: readonly Key[]): Filter | undefined {
  const range = given.typed("range") === lastHours ? lastHours : "";
  const span = readChosenSpan(given, now);
  const typed = given.typed("group") || "day";
  const group = groupings.map(([name]) => name).find((name) => name === typed);
  if (!group) given.refuse("group", "Choose day, model, key or tag.");
  const keyId = given.typed("key");
  if (keyId !== "" && !keys.some((key) => key.keyId === keyId)) {
    given.refuse("key", "There is no such key in this account.");
  }
  const model = given.typed("model");
  if (model.length > modelLength || /\p{Cc}/u.test(model)) {
    given.refuse("model", `Give the name of a model, at most ${modelLength} characters.`);
  }
  return span && group && given.errors.size === 0 ? { range, span, group, keyId, model } : undefined;
}

/** A group with its name for people; a day without use has no sum. */
type Row = { group: string; name: string; sum: UsageSum | undefined };

type RowContext = { filter: Filter; keys: readonly Key[]; until: Date };

function rowsOf(sums: readonly UsageSum[], { filter: { span, group }, keys, until }: RowContext): Row[] {
  if (group === "day") {
    // Nothing is used on days to come.
    const first = new Date(Math.floor(span.from.getTime() / dayMs) * dayMs);
    const past = { from: first, until: span.until < until ? span.until : until };
    return byDay(sums, past).map(({ day, sum }) => ({ group: day, name: day, sum }));
  }
  const names = new Map(keys.map(({ keyId, name }) => [keyId, name]));
  if (group === "tag") return rowsByTag(sums, keys);
  const dearest = sums.toSorted((a, b) => Number(b.chargedNanos - a.chargedNanos));
  return dearest.map((sum) => ({
    group: sum.group,
    name: (group === "key" ? names.get(sum.group) : sum.group) || sum.group || "not told",
    sum,
  }));
}

const untagged = "no tag";

/** A key with several tags counts in each of them. */
function rowsByTag(sums: readonly UsageSum[], keys: readonly Key[]): Row[] {
  const tagsOfKey = new Map(keys.map(({ keyId, tags }) => [keyId, tags]));
  const tagged = new Map<string, UsageSum>();
  for (const sum of sums) {
    const tags = tagsOfKey.get(sum.group) ?? [];
    for (const tag of tags.length === 0 ? [""] : tags) tagged.set(tag, addUp(tagged.get(tag), sum, tag));
  }
  const dearest = [...tagged].toSorted(([, a], [, b]) => Number(b.chargedNanos - a.chargedNanos));
  return dearest.map(([group, sum]) => ({ group, name: group || untagged, sum }));
}

const compare = async (deps: Deps, request: AccountRequest): Promise<PageResponse> =>
  show(deps, request, await readUsage(deps, request, true));

function show({ clock }: Pick<Deps, "clock">, { accountId }: AccountRequest, view: UsageView): PageResponse {
  const { given, filter, keys, sums, rows, before } = view;
  const { range, span, group, keyId, model } = filter;
  const chosen = { range, from: dayOf(span.from), until: lastDayOf(span), group, key: keyId, model };
  const path = `/accounts/${accountId}/usage`;
  const isWrong = given.errors.size > 0;
  const wrong = html`<p class="problems" role="alert">
    Some filters are invalid: ${[...given.errors.values()].join(" ")} Showing the last ${defaultDays} days.
  </p>`;
  return page(
    "Usage",
    html`${isWrong && wrong}${usageRanges(path, chosen, clock.nowMs())}${filterForm(given, { path, chosen, keys })}
      ${!isWrong && usageSummary(sums, before)}${usageTable(filter, rows)}
      ${group === "tag" && html`<p>A key with several tags counts in each of them.</p>`}
      <p><a href="${path}.csv?${new URLSearchParams(chosen).toString()}">Download as CSV</a></p>
      <h2>One call</h2>
      <p><a href="/accounts/${accountId}/calls">Find a call by its request id</a></p>`,
    isWrong ? { status: 422 } : {},
  );
}

type Chosen = Record<(typeof fields)[number], string>;
type FilterForm = { path: string; chosen: Chosen; keys: readonly Key[] };

/** Ranges up to now; the last 24 hours begin within a day. */
function usageRanges(path: string, chosen: Chosen, nowMs: number): Markup {
  const hours = { range: lastHours, from: dayOf(new Date(nowMs - dayMs)), until: dayOf(new Date(nowMs)) };
  return rangeLinks({ path, chosen, nowMs, first: ["24 hours", hours], ofDays: { range: "" } });
}

function filterForm(given: Form, { path, chosen, keys }: FilterForm): Markup {
  const named = keys.map(({ keyId, name }) => [keyId, `${name} (${keyId})`] as const);
  return html`<form method="get" action="${path}" class="filters">
    ${input(given, { name: "from", label: "First day", type: "date", value: chosen.from })}
    ${input(given, { name: "until", label: "Last day", type: "date", value: chosen.until })}
    ${choice(given, { name: "group", label: "By", value: chosen.group, choices: groupings })}
    ${choice(given, { name: "key", label: "Key", value: chosen.key, choices: [["", "all"], ...named] })}
    ${input(given, { name: "model", label: "Model", value: chosen.model, maxLength: modelLength, isOptional: true })}
    <p><button class="outline">Show</button></p>
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
    // Of tags it would count keys more than once.
    ...(group !== "tag" && {
      totals: [money(total.chargedNanos), count(total.calls), count(total.failedCalls), ...units.map(count)],
    }),
  });
}

async function download(deps: Deps, request: AccountRequest): Promise<PageResponse> {
  const looked = await readUsage(deps, request, false);
  // A file with something else in it than was asked for would pass for the right one.
  if (looked.given.errors.size > 0) return show(deps, request, looked);
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
