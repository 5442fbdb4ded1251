import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { UsageGrouping, type QueryUsageRequest, type QueryUsageResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { usageBuckets, type Units } from "#shared/pricing.ts";
import { dayOfMs } from "./check.ts";
import { badRequest, requireId } from "./check-request.ts";
import { sumUsage, type UsageGroup } from "./store/lines.ts";
import type { Pool } from "./store/pool.ts";

const maxDays = 400;
const dayMs = 86_400_000;

const groups: Record<UsageGrouping, UsageGroup> = {
  [UsageGrouping.UNSPECIFIED]: "none",
  [UsageGrouping.DAY]: "day",
  [UsageGrouping.MODEL]: "model",
  [UsageGrouping.KEY]: "key",
};

/** Sums of the calls admitted in a span of at most 400 days, by the time in their rid. */
export async function queryUsage(
  pool: Pool,
  { accountId, from, until, groupBy }: QueryUsageRequest,
): Promise<MessageInitShape<typeof QueryUsageResponseSchema>> {
  const group = groups[groupBy];
  if (!group) throw badRequest("group_by is unknown");
  const fromMs = requireTimeMs("from", from);
  const untilMs = requireTimeMs("until", until);
  if (untilMs <= fromMs) throw badRequest("until must be after from");
  if (untilMs - fromMs > maxDays * dayMs) throw badRequest(`from and until may be at most ${maxDays} days apart`);
  const sums = await sumUsage(pool, {
    accountId: requireId("account_id", accountId),
    days: { first: dayOfMs(fromMs), last: dayOfMs(untilMs) },
    rids: { from: firstUuidAt(fromMs), until: firstUuidAt(untilMs) },
    groupBy: group,
  });
  return {
    sums: sums.map((sum) => ({
      group: sum.group,
      calls: sum.calls,
      chargedNanos: sum.chargedNanos,
      usage: Object.fromEntries(usageBuckets.map((bucket, index) => [bucket, sum.units[index] ?? 0n])) as Units,
    })),
  };
}

// Years that ISO dates write with four digits, which are also those that a UUIDv7 can hold.
const lastMs = Date.UTC(9999, 0, 1);

function requireTimeMs(name: string, time: Timestamp | undefined): number {
  if (!time) throw badRequest(`${name} is missing`);
  // A rid counts whole milliseconds.
  const atMs = Math.ceil(timestampMs(time));
  if (atMs < 0 || atMs > lastMs) throw badRequest(`${name} is out of range`);
  return atMs;
}

/** The least UUID whose first 48 bits are this time: every rid of an earlier millisecond is below it. */
function firstUuidAt(atMs: number): string {
  const time = atMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}
