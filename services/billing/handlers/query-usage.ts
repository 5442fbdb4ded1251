import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  UsageGrouping,
  type QueryUsageRequest,
  type QueryUsageResponseSchema,
  type UsageSumSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import { badRequest, detached, requireId, requireSpan, requireText } from "./check-request.ts";
import { sumUsage, type UsageGroup, type UsageSumRow } from "../store/usage.ts";
import type { Pool } from "#shared/stores/postgres.ts";

const groups: Record<UsageGrouping, UsageGroup> = {
  [UsageGrouping.UNSPECIFIED]: "none",
  [UsageGrouping.DAY]: "day",
  [UsageGrouping.MODEL]: "model",
  [UsageGrouping.KEY]: "key",
};

const modelLength = { min: 1, max: 1_000 };

/**
 * Sums of the calls admitted in a span of at most 400 days, by the time in their rid. `failed_precondition` when it
 * begins or ends within an hour of a day whose partition is detached.
 */
export async function queryUsage(
  pool: Pool,
  { accountId, from, until, groupBy, keyId, model }: QueryUsageRequest,
): Promise<MessageInitShape<typeof QueryUsageResponseSchema>> {
  const group = groups[groupBy];
  if (!group) throw badRequest("group_by is unknown");
  const { detachedDay, sums } = await sumUsage(pool, {
    accountId: requireId("account_id", accountId),
    span: requireSpan({ from, until }),
    groupBy: group,
    keyId: keyId === "" ? undefined : requireId("key_id", keyId),
    model: model === "" ? undefined : requireText("model", model, modelLength),
  });
  if (detachedDay !== undefined) throw detached(detachedDay);
  return { sums: sums.map(toUsageSum) };
}

/** A sum as callers see it. */
export function toUsageSum({
  group,
  calls,
  failedCalls,
  chargedNanos,
  units,
}: UsageSumRow): MessageInitShape<typeof UsageSumSchema> {
  return { group, calls, failedCalls, chargedNanos, usage: toUsage(units) };
}

/** Units by bucket, from their list in the order of usageBuckets. */
export function toUsage(units: readonly bigint[]): Units {
  return Object.fromEntries(usageBuckets.map((bucket, index) => [bucket, units[index] ?? 0n]));
}
