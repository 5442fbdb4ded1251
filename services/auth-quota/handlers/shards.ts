import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import type { Layout } from "../store/key-prefix.ts";
import { changeLayout } from "../store/layout.ts";
import { readMaintenance } from "../store/maintenance.ts";
import type { Database } from "../store/postgres.ts";
import { readTotals, type Shards } from "../store/shards.ts";
import { refuse } from "./validate.ts";

type ShardDeps = { database: Database; shards: Shards; layout: Layout; log: Logger };

const maxShards = 64;
// Relays have heard of the maintenance by then, and what they had admitted within leases has been told.
const closedForMs = 30_000;

/** Changes the number of shards, while nothing lies in those that there are. */
export function shardHandlers(deps: ShardDeps): Pick<UnaryHandlers<typeof AuthQuotaService>, "changeShards"> {
  const { database, layout, log } = deps;
  return {
    changeShards: async ({ shards: wanted }) => {
      if (wanted < 1 || wanted > maxShards) refuse(`shards must be 1 to ${maxShards}`);
      if (wanted === layout.shards) return { shards: wanted };
      const problem = await whyNotAtRest(deps);
      if (problem !== undefined) throw new ServiceError("failed_precondition", problem);
      if (!(await changeLayout(database, layout, wanted)))
        throw new ServiceError("failed_precondition", "the number was changed by somebody else");
      // No process may go on with them, nor one that starts while PostgreSQL is away.
      await whenRedisAnswers(Promise.all(deps.shards.all.map((shard) => shard.retire())));
      log.warn({ from: layout.shards, to: wanted }, "the number of shards is changed");
      return { shards: wanted };
    },
  };
}

async function whyNotAtRest({ database, shards }: ShardDeps): Promise<string | undefined> {
  const { isMaintenance, changedAt } = await readMaintenance(database);
  const isClosed = isMaintenance && changedAt !== null && Date.now() - changedAt.getTime() >= closedForMs;
  if (!isClosed) return `the API must have been closed for maintenance for ${closedForMs / 1_000} s`;
  const locks = await whenRedisAnswers(Promise.all(shards.all.map((shard) => shard.readRecoveryLock())));
  if (locks.some((lock) => lock === undefined || lock.closedMs !== undefined))
    return "a shard has lost data and is not rebuilt yet";
  const { openHolds, outboxSize } = await whenRedisAnswers(readTotals(shards.all));
  if (openHolds === 0 && outboxSize === 0) return undefined;
  return `${openHolds} holds are open, and ${outboxSize} charges are not booked yet`;
}
