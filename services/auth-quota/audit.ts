import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import { auditCalls } from "./store/audit-calls.ts";
import type { HotStore } from "./store/hot.ts";
import type { HotRedis } from "./store/redis.ts";
import { checkId, refuse } from "./validate.ts";

const mostAccounts = 1_000;

/**
 * Tells the money of accounts as the hot store keeps it, and as its calls add up to, for billing's reconciliation.
 * Reads only, beside the money script. `unavailable` when Redis does not answer.
 */
export function auditHandler(redis: HotRedis, hot: HotStore): UnaryHandlers<typeof AuthQuotaService>["auditAccounts"] {
  return async ({ accountIds }) => {
    if (accountIds.length > mostAccounts) refuse(`account_ids may name at most ${mostAccounts} accounts`);
    const ids = accountIds.map((id) => checkId("account_ids", id));
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
