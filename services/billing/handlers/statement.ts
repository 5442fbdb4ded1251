import type { MessageInitShape } from "@bufbuild/protobuf";
import type { GetStatementRequest, GetStatementResponseSchema } from "#proto/billing/v1/billing_pb.ts";
import type { Clock } from "#shared/process/clock.ts";
import { detached, requireId, requireSpan } from "./check-request.ts";
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
 * `failed_precondition` when it needs lines of a detached partition, because it begins or ends within an hour.
 */
export async function getStatement(
  { pool, clock }: { pool: Pool; clock: Clock },
  request: GetStatementRequest,
): Promise<MessageInitShape<typeof GetStatementResponseSchema>> {
  const span = requireSpan(request);
  const { detachedDay, closingBalanceNanos, sums, models } = await readStatement(pool, {
    accountId: requireId("account_id", request.accountId),
    span,
  });
  if (detachedDay !== undefined) throw detached(detachedDay);
  const bookedNanos = sums.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
  return {
    openingBalanceNanos: closingBalanceNanos - bookedNanos,
    closingBalanceNanos,
    sums,
    models: models.map(toUsageSum),
    isFinal: span.untilMs + settlingMs <= clock.nowMs(),
  };
}
