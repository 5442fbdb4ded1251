import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import type { Load } from "../hot/load.ts";
import { need, type HotStore, type HotSums } from "../store/hot.ts";
import { listUnposted, readTotals, type Shards } from "../store/shards.ts";
import { checkId, checkLimit, refuse } from "./validate.ts";

type HoldHandlers = Pick<UnaryHandlers<typeof AuthQuotaService>, "getHolds" | "listUnposted">;

const maxAgeMs = 10n * 365n * 86_400_000n;

/** What is open: holds, and charges that the ledger has not confirmed. */
export function holdHandlers(shards: Shards, load: Load): HoldHandlers {
  return {
    getHolds: async ({ accountId }) => {
      if (accountId === "") {
        const { openHolds, outboxSize } = await whenRedisAnswers(readTotals(shards.all));
        return { openHolds: BigInt(openHolds), unpostedCalls: BigInt(outboxSize) };
      }
      const sums = await readLoadedSums(shards.of(accountId), load, checkId("account_id", accountId));
      return {
        openHolds: BigInt(sums.openHolds),
        heldNanos: BigInt(sums.heldNanos),
        unpostedCalls: BigInt(sums.unpostedCalls),
        unpostedNanos: BigInt(sums.unpostedNanos),
        availableNanos: BigInt(sums.availableNanos ?? 0),
      };
    },
    listUnposted: async ({ minAgeMs, limit }) => {
      if (minAgeMs < 0n || minAgeMs > maxAgeMs) refuse("min_age_ms must be 0 or more, and at most ten years");
      const most = checkLimit("limit", limit, { default: 100, max: 1_000 });
      return { records: await whenRedisAnswers(listUnposted(shards, Number(minAgeMs), most)) };
    },
  };
}

async function readLoadedSums(hot: HotStore, load: Load, accountId: string): Promise<HotSums> {
  const sums = await whenRedisAnswers(hot.readSums(accountId));
  const missing = (sums.hasSettings ? 0 : need.account) + (sums.availableNanos === undefined ? need.balance : 0);
  if (missing === 0) return sums;
  await whenRedisAnswers(hot.apply("", await load(missing, { accountId, keyId: "" })));
  const loaded = await whenRedisAnswers(hot.readSums(accountId));
  if (loaded.availableNanos === undefined) throw new ServiceError("unavailable", "the balance is not available");
  return loaded;
}
