import { timestampDate } from "@bufbuild/protobuf/wkt";
import { BusinessGrouping, type BusinessSum, type QueryBusinessResponse } from "#proto/billing/v1/billing_pb.ts";
import { withoutFormula } from "#shared/money/csv.ts";
import { formatUsd } from "#shared/money/money.ts";
import { findAccounts } from "../../directory.ts";
import { money } from "../../html/amounts.ts";
import { businessSummary, costOf, marginOf, marginWords, noBusiness } from "../../html/business-figures.ts";
import { chartTable } from "../../html/chart.ts";
import { share, withSmall } from "../../html/comparison.ts";
import { choice, input, instant } from "../../html/controls.ts";
import { csvFile } from "../../html/csv-file.ts";
import { dayOf, lastDayOf, lastDays, readSpan, spanBefore, type Span } from "../../html/days.ts";
import { createForm, type Form } from "../../html/form.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { rangeLinks } from "../../html/range-links.ts";
import { get, operatorRoute, page, type PageResponse, type Route, type SignedInRequest } from "../../html/route.ts";
import { count } from "../../html/units.ts";

const path = "/operator/business";
const defaultDays = 30;
const fields = ["from", "until", "group"] as const;
const groupsShown = 100;
const groupsInFile = 1_000;

const groupings = [
  ["day", "Day"],
  ["model", "Model"],
  ["account", "Account"],
  ["upstream", "Upstream"],
] as const;

type Group = (typeof groupings)[number][0];

const groupCodes: Record<Group, BusinessGrouping> = {
  day: BusinessGrouping.DAY,
  model: BusinessGrouping.MODEL,
  account: BusinessGrouping.ACCOUNT,
  upstream: BusinessGrouping.UPSTREAM,
};

/** What all accounts bring in, what providers charge for it, and how calls end. */
export function businessRoutes(deps: Deps): Route[] {
  return [
    operatorRoute(get("/business"), "business.view", (request) => show(deps, request)),
    operatorRoute(get("/business.csv"), "business.view", (request) => download(deps, request)),
  ];
}

type Filter = { span: Span; group: Group };

/** Undefined with what is wrong noted in the form. */
function readFilter(given: Form, nowMs: number): Filter | undefined {
  const span = readSpan(given, lastDays(nowMs, defaultDays));
  const typed = given.typed("group") || "day";
  const group = groupings.map(([name]) => name).find((name) => name === typed);
  if (!group) given.refuse("group", "Choose day, model, account or upstream.");
  return span && group && given.errors.size === 0 ? { span, group } : undefined;
}

const daysAsked = ({ from, until }: Span) => ({ fromDay: dayOf(from), untilDay: dayOf(until) });

async function show({ billing, authQuota, clock }: Deps, request: SignedInRequest): Promise<PageResponse> {
  const nowMs = clock.nowMs();
  const given = createForm(Object.fromEntries(fields.map((name) => [name, request.query(name)])));
  const filter = readFilter(given, nowMs) ?? { span: lastDays(nowMs, defaultDays), group: "day" };
  const { span, group } = filter;
  const [all, before, grouped] = await Promise.all([
    billing.queryBusiness(daysAsked(span)),
    billing.queryBusiness(daysAsked(spanBefore(span))),
    billing.queryBusiness({ ...daysAsked(span), groupBy: groupCodes[group], limit: groupsShown }),
  ]);
  const ids = group === "account" ? grouped.sums.map((sum) => sum.group).filter((id) => id !== "") : [];
  const accounts = await findAccounts({ authQuota }, ids);
  const chosen = { from: dayOf(span.from), until: lastDayOf(span), group };
  const isWrong = given.errors.size > 0;
  const wrong = html`<p class="problems" role="alert">
    Some filters are invalid: ${[...given.errors.values()].join(" ")} Showing the last ${defaultDays} days.
  </p>`;
  return page(
    "Business",
    html`${isWrong && wrong}${rangeLinks({ path, chosen, nowMs })}${filterForm(given, chosen)}
      <section class="card">${businessSummary(all.sums[0] ?? noBusiness, before.sums[0] ?? noBusiness)}</section>
      ${asOf(all)} ${businessTable(filter, grouped, (id) => accounts.get(id)?.name)}
      <p><a href="${path}.csv?${new URLSearchParams(chosen).toString()}">Download as CSV</a></p>`,
    isWrong ? { status: 422 } : {},
  );
}

function filterForm(given: Form, chosen: Record<(typeof fields)[number], string>): Markup {
  return html`<form method="get" action="${path}" class="filters">
    ${input(given, { name: "from", label: "First day", type: "date", value: chosen.from })}
    ${input(given, { name: "until", label: "Last day", type: "date", value: chosen.until })}
    ${choice(given, { name: "group", label: "By", value: chosen.group, choices: groupings })}
    <p><button class="outline">Show</button></p>
  </form>`;
}

/** Until when the sums are, and which days they lack. */
function asOf({ summedUntil, missingDays }: QueryBusinessResponse): Markup {
  const [first] = missingDays;
  const days = missingDays.length === 1 ? "is 1 day" : `are ${missingDays.length} days`;
  const missing = html`<p class="problems" role="status">
    Not all in these figures ${days}, ${first} to ${missingDays.at(-1)}: still being summed up, or out of the ledger
    before it was summed up like this.
  </p>`;
  const isBegun = summedUntil !== undefined && summedUntil.seconds > 0n;
  const asOfWhen = isBegun ? html`Booked until ${instant(timestampDate(summedUntil))}.` : "No hour is summed up yet.";
  return html`<p>
      ${asOfWhen} Revenue is what was charged less refunds; the margin is of calls whose cost prices the catalog has,
      before refunds.
    </p>
    ${first !== undefined && missing}`;
}

const headings: Record<Group, string> = { day: "Day", model: "Model", account: "Account", upstream: "Upstream" };

const withoutGroup = { day: "", model: "by hand", account: "", upstream: "by hand, or none reached" };

function businessTable(
  { span, group }: Filter,
  { sums, groups }: QueryBusinessResponse,
  nameOf: (accountId: string) => string | undefined,
): Markup {
  const most = groups > BigInt(sums.length) ? `, the ${sums.length} of ${groups} charged most` : "";
  const caption = `Charged by ${group} in USD, ${dayOf(span.from)} to ${lastDayOf(span)}${most}`;
  if (sums.length === 0) return html`<p class="card">${caption}: none.</p>`;
  return chartTable({
    caption,
    head: [headings[group], "Charged", "Provider cost", "Margin", "Refunded", "Calls", "Failed", "By the upstream"],
    rows: sums.map((sum) => ({
      label: (group === "account" && nameOf(sum.group)) || sum.group || withoutGroup[group],
      ...(group === "account" && { href: `/operator/accounts/${sum.group}` }),
      nanos: sum.chargedNanos,
      cells: [
        money(sum.chargedNanos),
        costOf(sum),
        marginWords(sum),
        money(sum.refundedNanos),
        count(sum.calls),
        withSmall(count(sum.failedCalls), share(sum.failedCalls, sum.calls)),
        withSmall(count(sum.upstreamFailedCalls), share(sum.upstreamFailedCalls, sum.calls)),
      ],
    })),
  });
}

const columns = [
  ["calls", ({ calls }) => String(calls)],
  ["failed_calls", ({ failedCalls }) => String(failedCalls)],
  ["upstream_failed_calls", ({ upstreamFailedCalls }) => String(upstreamFailedCalls)],
  ["caller_gone_calls", ({ goneCalls }) => String(goneCalls)],
  ["charged_usd", ({ chargedNanos }) => formatUsd(chargedNanos)],
  ["refunded_usd", ({ refundedNanos }) => formatUsd(refundedNanos)],
  ["provider_cost_usd", (sum) => (marginOf(sum) ? formatUsd(sum.costNanos) : "")],
  ["calls_of_unknown_cost", ({ uncostedCalls }) => String(uncostedCalls)],
  ["charged_of_unknown_cost_usd", ({ uncostedNanos }) => formatUsd(uncostedNanos)],
  ["margin_usd", (sum) => formatIfKnown(marginOf(sum)?.nanos)],
  ["paid_in_usd", ({ creditedNanos }) => formatUsd(creditedNanos)],
  ["corrected_usd", ({ correctedNanos }) => formatUsd(correctedNanos)],
] satisfies [string, (sum: BusinessSum) => string][];

const formatIfKnown = (nanos: bigint | undefined): string => (nanos === undefined ? "" : formatUsd(nanos));

async function download(deps: Deps, request: SignedInRequest): Promise<PageResponse> {
  const given = createForm(Object.fromEntries(fields.map((name) => [name, request.query(name)])));
  const filter = readFilter(given, deps.clock.nowMs());
  // A file with something else in it than was asked for would pass for the right one.
  if (!filter) return show(deps, request);
  const { span, group } = filter;
  const asked = { ...daysAsked(span), groupBy: groupCodes[group], limit: groupsInFile };
  const { sums } = await deps.billing.queryBusiness(asked);
  const name = `business-by-${group}-${dayOf(span.from)}-to-${lastDayOf(span)}.csv`;
  const rows = sums.map((sum) => [withoutFormula(sum.group), ...columns.map(([, cell]) => cell(sum))]);
  const header = [group, ...columns.map(([heading]) => heading)];
  return csvFile({ log: deps.log, gone: request.gone }, { name, header, rows });
}
