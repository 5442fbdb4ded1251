import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { AccountRefusals } from "#proto/authquota/v1/authquota_pb.ts";
import type { BusinessSum, QueryBusinessResponse } from "#proto/billing/v1/billing_pb.ts";
import { BusinessGrouping } from "#proto/billing/v1/billing_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import { findAccounts } from "../../directory.ts";
import { shortUsd } from "../../html/amounts.ts";
import { share } from "../../html/comparison.ts";
import { table } from "../../html/controls.ts";
import { dayOf, lastDayOf, lastDays, type Span } from "../../html/days.ts";
import { html, type Markup } from "../../html/html.ts";
import { refusalWords } from "../../html/refusal-words.ts";
import type { Deps } from "../../deps.ts";
import { get, operatorRoute, page, type PageResponse, type Route } from "../../html/route.ts";
import { count } from "../../html/units.ts";

const days = 2;
const daysBefore = 14;
const accountsRead = 1_000;
const maxShown = 100;

// Of fewer calls a share says nothing.
const leastCalls = 50n;
const gonePercent = 50n;
const freePercent = 25n;
const suddenTimes = 10n;
const leastSuddenNanos = 1_000_000_000n;
const leastFromElsewhere = 10n;
const leastRefused = 1_000n;

/** Accounts whose calls look as those of somebody who would not pay look. Nothing is done to them. */
export function suspiciousRoutes(deps: Deps): Route[] {
  return [operatorRoute(get("/suspicious"), "business.view", () => show(deps))];
}

type RefusalsOfAccount = Pick<AccountRefusals, "accountId" | "reason" | "refusals">;

type Suspicion = { accountId: string; reason: string; path: string };

async function show({ billing, authQuota, clock }: Deps): Promise<PageResponse> {
  const span = lastDays(clock.nowMs(), days);
  const earlier = { from: new Date(span.from.getTime() - daysBefore * dayMs), until: span.from };
  const [[now, before], { accounts: refused }] = await Promise.all([
    Promise.all([span, earlier].map((one) => billing.queryBusiness(byAccount(one)))),
    authQuota.listMostRefused({ since: timestampFromDate(span.from) }),
  ]);
  const found = [...findRefused(refused), ...(now && before ? findSuspicions(now, before, span) : [])];
  const shown = found.slice(0, maxShown);
  const accounts = await findAccounts(
    { authQuota },
    shown.map(({ accountId }) => accountId),
  );
  const rows = shown.map(({ accountId, reason, path }) => row(accounts.get(accountId)?.name, accountId, reason, path));
  const more = found.length > maxShown ? `, the first ${maxShown} of ${found.length}` : "";
  return page(
    "Suspicious patterns",
    html`<p>
        Of the ${accountsRead.toLocaleString("en-US")} accounts charged most, what was booked on the last ${days} days,
        up to an hour ago; and what was refused on them to callers of all accounts. Nothing is done to these accounts:
        look at their calls first.
      </p>
      ${table(`Suspicious patterns, ${dayOf(span.from)} to ${lastDayOf(span)}${more}`, head, rows)}
      <h2>What is looked for</h2>
      <ul>
        <li>Callers leave ${gonePercent} % of ${leastCalls} or more calls before their end.</li>
        <li>
          ${freePercent} % of ${leastCalls} or more answers that were whole, or left by their caller, cost nothing: an
          upstream tells no use, or its answers are empty.
        </li>
        <li>
          ${shortUsd(leastSuddenNanos)} or more was charged, ${suddenTimes} times as much a day as on the ${daysBefore}
          days before.
        </li>
        <li>
          ${count(leastFromElsewhere)} or more calls came with a key from an address that the key does not allow, or
          ${count(leastRefused)} or more were refused for anything else.
        </li>
      </ul>`,
  );
}

const byAccount = ({ from, until }: Span) => ({
  fromDay: dayOf(from),
  untilDay: dayOf(until),
  groupBy: BusinessGrouping.ACCOUNT,
  limit: accountsRead,
});

const head = ["Account", "Why", "Where to look"];

function row(name: string | undefined, accountId: string, reason: string, path: string): Markup {
  return html`<tr>
    <th scope="row"><a href="/operator/accounts/${accountId}">${name || accountId}</a></th>
    <td>${reason}</td>
    <td>
      <a href="/accounts/${accountId}${path}">Its calls<span class="hidden"> of ${accountId}</span></a>
    </td>
  </tr>`;
}

/** What looks odd of the accounts of `now`, those charged most first. */
export function findSuspicions(now: QueryBusinessResponse, before: QueryBusinessResponse, span: Span): Suspicion[] {
  const known = new Map(before.sums.map((sum) => [sum.group, sum.chargedNanos]));
  // Whoever is not among those charged most was charged no more than the last of them.
  const isCut = before.groups > BigInt(before.sums.length);
  const most = isCut ? (before.sums.at(-1)?.chargedNanos ?? 0n) : 0n;
  const usage = `/usage?${new URLSearchParams({ from: dayOf(span.from), until: lastDayOf(span) }).toString()}`;
  return now.sums
    .filter(({ group }) => group !== "")
    .flatMap((sum) => {
      const sudden = suddenSpend(sum, known.get(sum.group) ?? most);
      const reasons = [
        ...(hasShare(sum.goneCalls, sum, gonePercent) ? [{ reason: goneWords(sum), path: "/activity" }] : []),
        ...(hasShare(sum.freeCalls, sum, freePercent) ? [{ reason: freeWords(sum), path: "/activity" }] : []),
        ...(sudden === undefined ? [] : [{ reason: sudden, path: usage }]),
      ];
      return reasons.map((one) => ({ accountId: sum.group, ...one }));
    });
}

/** Keys that are tried from elsewhere, and floods of refused calls. */
export function findRefused(refused: readonly RefusalsOfAccount[]): Suspicion[] {
  const path = "/activity/refused";
  return [...Map.groupBy(refused, ({ accountId }) => accountId)].flatMap(([accountId, all]) => {
    const others = all.filter(({ reason }) => reason !== "key_address");
    const elsewhere = sumOf(all) - sumOf(others);
    const reasons = [
      ...(elsewhere >= leastFromElsewhere ? [elsewhereWords(elsewhere)] : []),
      ...(sumOf(others) >= leastRefused ? [refusedWords(others)] : []),
    ];
    return reasons.map((reason) => ({ accountId, reason, path }));
  });
}

const sumOf = (refused: readonly RefusalsOfAccount[]): bigint =>
  refused.reduce((sum, { refusals }) => sum + refusals, 0n);

const elsewhereWords = (calls: bigint): string =>
  `${count(calls)} calls came with a key from an address that it does not allow: it may be stolen.`;

const refusedWords = (others: readonly RefusalsOfAccount[]): string =>
  `${count(sumOf(others))} calls were refused, most of them: ${refusalWords(others[0]?.reason ?? "").title}.`;

const hasShare = (part: bigint, { calls }: BusinessSum, percent: bigint): boolean =>
  calls >= leastCalls && part * 100n >= calls * percent;

const goneWords = ({ goneCalls, calls }: BusinessSum): string =>
  `Callers left ${count(goneCalls)} of ${count(calls)} calls before their end (${share(goneCalls, calls)}).`;

const freeWords = ({ freeCalls, calls }: BusinessSum): string =>
  `${count(freeCalls)} of ${count(calls)} calls were answered and cost nothing (${share(freeCalls, calls)}).`;

/** An account that was charged nothing before is new, not sudden. */
function suddenSpend({ chargedNanos }: BusinessSum, beforeNanos: bigint): string | undefined {
  if (beforeNanos === 0n || chargedNanos < leastSuddenNanos) return undefined;
  const usualNanos = (beforeNanos * BigInt(days)) / BigInt(daysBefore) || 1n;
  const times = chargedNanos / usualNanos;
  if (times < suddenTimes) return undefined;
  return `${shortUsd(chargedNanos)} was charged, ${count(times)} times the usual ${shortUsd(usualNanos)}.`;
}
