import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetStatementRequest, GetStatementResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import { dayMs, type Clock } from "#shared/process/clock.ts";
import { dayOfMs, newestDays, oldestDays } from "../records/check.ts";
import { detached, requireId, requireSpan } from "./check-request.ts";
import { firstUuidAt } from "../records/line-id.ts";
import { toUsageSum } from "./query-usage.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { readStatement } from "../store/statement.ts";

// A line's id holds the time at which billing decided to book it, and its commit comes later: until then the line is in
// no statement. Between the two are at most a dozen database statements of 35 s each, and the clocks of replicas may
// differ by minutes. An hour after its end a statement can therefore not change any more.
export const settlingMs = 3_600_000;

/**
 * What was booked for an account within a time of at most 400 days, by the time in the ids of lines, which is that of
 * the booking: a call counts when it was booked, however late that was. Opening balance plus sums is closing balance.
 * `failed_precondition` when a partition is detached that may hold lines booked within the time or later.
 */
export async function getStatement(
  { pool, clock }: { pool: Pool; clock: Clock },
  request: GetStatementRequest,
): Promise<MessageInitShape<typeof GetStatementResponseSchema>> {
  const { fromMs, untilMs } = requireSpan(request);
  const { detachedDay, closingBalanceNanos, sums, models } = await readStatement(pool, {
    accountId: requireId("account_id", request.accountId),
    lineIds: { from: firstUuidAt(fromMs), until: firstUuidAt(untilMs) },
    // Of a call that was booked within the time, the rid may be this old, or this far ahead; one day for both clocks.
    days: { first: dayOfMs(fromMs - (oldestDays + 1) * dayMs), last: dayOfMs(untilMs + (newestDays + 1) * dayMs) },
  });
  if (detachedDay !== undefined) throw detached(detachedDay);
  const bookedNanos = sums.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
  return {
    openingBalanceNanos: closingBalanceNanos - bookedNanos,
    closingBalanceNanos,
    sums,
    models: models.map(toUsageSum),
    isFinal: untilMs + settlingMs <= clock.nowMs(),
  };
}
