import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import { auditCalls } from "../store/audit-calls.ts";
import type { HotStore } from "../store/hot.ts";
import type { HotRedis } from "../store/redis.ts";
import { checkIds } from "./validate.ts";

/**
 * Tells the money of accounts as the hot store keeps it, and as its calls add up to, for billing's reconciliation.
 * Reads only, beside the money script. `unavailable` when Redis does not answer.
 */
export function auditHandler(redis: HotRedis, hot: HotStore): UnaryHandlers<typeof AuthQuotaService>["auditAccounts"] {
  return async ({ accountIds }) => {
    const ids = checkIds("account_ids", accountIds);
    const [{ accounts, isCounted, oldestHoldMs }, { outboxSize, outboxOldestMs }] = await whenRedisAnswers(
      Promise.all([auditCalls(redis, ids), hot.readTotals()]),
    );
    return {
      accounts: accounts.map(({ accountId, kept, counted, isMoving }) => ({
        accountId,
        ...kept,
        countedHeldNanos: counted.heldNanos,
        countedUnpostedNanos: counted.unpostedNanos,
        isMoving,
      })),
      isCounted,
      oldestHoldMs: BigInt(oldestHoldMs),
      oldestUnpostedMs: BigInt(outboxOldestMs),
      unpostedCalls: BigInt(outboxSize),
    };
  };
}
