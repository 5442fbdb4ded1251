import type { BusinessSum } from "#proto/billing/v1/billing_pb.ts";
import { money } from "./amounts.ts";
import { change, share, withSmall } from "./comparison.ts";
import { figure, leadFigure } from "./controls.ts";
import { html, type Markup } from "./html.ts";
import { count } from "./units.ts";

/** The counts and amounts of a group, or of several. */
export type BusinessFigures = Omit<BusinessSum, "group" | "$typeName" | "$unknown">;

export const noBusiness: BusinessFigures = {
  accounts: 0n,
  newAccounts: 0n,
  calls: 0n,
  failedCalls: 0n,
  upstreamFailedCalls: 0n,
  goneCalls: 0n,
  freeCalls: 0n,
  uncostedCalls: 0n,
  chargedNanos: 0n,
  uncostedNanos: 0n,
  costNanos: 0n,
  refundedNanos: 0n,
  creditedNanos: 0n,
  correctedNanos: 0n,
};

/** What is left of the charges whose cost is known; undefined when that is of none. */
export function marginOf({ calls, uncostedCalls, chargedNanos, uncostedNanos, costNanos }: BusinessFigures) {
  if (uncostedCalls > 0n && uncostedCalls === calls) return undefined;
  const ofNanos = chargedNanos - uncostedNanos;
  return { nanos: ofNanos - costNanos, ofNanos };
}

const unknownCalls = (calls: bigint): string => `and unknown of ${count(calls)} ${calls === 1n ? "call" : "calls"}`;

/** What providers charge, as far as it is known; never 0 where it is not. */
export function costOf(sum: BusinessFigures): string | Markup {
  if (sum.uncostedCalls === 0n) return money(sum.costNanos);
  return marginOf(sum) ? withSmall(money(sum.costNanos), unknownCalls(sum.uncostedCalls)) : "unknown";
}

/** The margin with its share of the charges that it is of. */
export function marginWords(sum: BusinessFigures): string | Markup {
  const margin = marginOf(sum);
  return margin ? withSmall(money(margin.nanos), share(margin.nanos, margin.ofNanos)) : "unknown";
}

const marginShare = (sum: BusinessFigures): string => {
  const margin = marginOf(sum);
  return margin ? share(margin.nanos, margin.ofNanos) : "unknown";
};

/** A period beside the one before it. */
export function businessSummary(is: BusinessFigures, was: BusinessFigures): Markup {
  const revenue = ({ chargedNanos, refundedNanos }: BusinessFigures): bigint => chargedNanos - refundedNanos;
  const amount = (now: bigint, before: bigint): Markup => withSmall(money(now), change(now, before));
  const number = (now: bigint, before: bigint): Markup => withSmall(count(now), change(now, before));
  const failed = ({ failedCalls, calls }: BusinessFigures): string => share(failedCalls, calls);
  return html`<dl class="figures-row">
    ${leadFigure("Revenue", amount(revenue(is), revenue(was)))} ${figure("Provider cost", costOf(is))}
    ${figure("Margin", html`${marginWords(is)} <small>before: ${marginShare(was)}</small>`)}
    ${figure("Paid in", amount(is.creditedNanos, was.creditedNanos))}
    ${figure("Active accounts", number(is.accounts, was.accounts))}
    ${figure("New accounts", number(is.newAccounts, was.newAccounts))} ${figure("Calls", number(is.calls, was.calls))}
    ${figure("Failed calls", withSmall(failed(is), `before: ${failed(was)}`))}
  </dl>`;
}
