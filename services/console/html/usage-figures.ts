import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { create } from "@bufbuild/protobuf";
import { type UsageGrouping, type UsageSum, UsageSumSchema } from "#proto/billing/v1/billing_pb.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import { daysOf, type Span } from "./days.ts";

/** Which use to ask billing for; an empty key or model is every one. */
export type UsageQuery = { accountId: string; span: Span; groupBy: UsageGrouping; keyId?: string; model?: string };

/** The query as billing takes it. */
export function usageRequest({ accountId, span, groupBy, keyId = "", model = "" }: UsageQuery) {
  const { from, until } = span;
  return { accountId, groupBy, keyId, model, from: timestampFromDate(from), until: timestampFromDate(until) };
}

export type Spend = { calls: bigint; failedCalls: bigint; chargedNanos: bigint };

/** What groups come to together. */
export function totalOf(sums: readonly Spend[]): Spend {
  const total = { calls: 0n, failedCalls: 0n, chargedNanos: 0n };
  for (const { calls, failedCalls, chargedNanos } of sums) {
    total.calls += calls;
    total.failedCalls += failedCalls;
    total.chargedNanos += chargedNanos;
  }
  return total;
}

/** A sum, if there is one, with another's figures added, for a group. */
export function addUp(sum: UsageSum | undefined, more: UsageSum, group: string): UsageSum {
  const usage = usageBuckets.map((bucket) => [bucket, (sum?.usage?.[bucket] ?? 0n) + (more.usage?.[bucket] ?? 0n)]);
  return create(UsageSumSchema, {
    group,
    calls: (sum?.calls ?? 0n) + more.calls,
    failedCalls: (sum?.failedCalls ?? 0n) + more.failedCalls,
    chargedNanos: (sum?.chargedNanos ?? 0n) + more.chargedNanos,
    usage: Object.fromEntries(usage),
  });
}

/** The sums of all days of a span, in their order; a day without use has none. */
export function byDay(sums: readonly UsageSum[], span: Span): { day: string; sum: UsageSum | undefined }[] {
  const found = new Map(sums.map((sum) => [sum.group, sum]));
  return daysOf(span).map((day) => ({ day, sum: found.get(day) }));
}
