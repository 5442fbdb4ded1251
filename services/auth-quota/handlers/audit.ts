import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import { readTotals, type Shards } from "../store/shards.ts";
import { checkIds } from "./validate.ts";

/**
 * Tells the money of accounts as the hot store keeps it, and as its calls add up to, for billing's reconciliation.
 * Reads only, beside the money script. `unavailable` when a shard does not answer.
 */
export function auditHandler(shards: Shards): UnaryHandlers<typeof AuthQuotaService>["auditAccounts"] {
  return async ({ accountIds }) => {
    const ids = checkIds("account_ids", accountIds);
    const auditing = shards.all.map((shard) => shard.audit(ids.filter((id) => shards.of(id) === shard)));
    const [audits, { outboxSize, outboxOldestMs }] = await whenRedisAnswers(
      Promise.all([Promise.all(auditing), readTotals(shards.all)]),
    );
    const byId = new Map(audits.flatMap(({ accounts }) => accounts).map((audited) => [audited.accountId, audited]));
    return {
      accounts: ids
        .flatMap((id) => byId.get(id) ?? [])
        .map(({ accountId, kept, counted, isMoving }) => ({
          accountId,
          ...kept,
          countedHeldNanos: counted.heldNanos,
          countedUnpostedNanos: counted.unpostedNanos,
          isMoving,
        })),
      isCounted: audits.every(({ isCounted }) => isCounted),
      oldestHoldMs: BigInt(Math.max(...audits.map(({ oldestHoldMs }) => oldestHoldMs))),
      oldestUnpostedMs: BigInt(outboxOldestMs),
      unpostedCalls: BigInt(outboxSize),
    };
  };
}
