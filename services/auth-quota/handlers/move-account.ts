import type { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryHandlers } from "#shared/grpc/grpc.ts";
import { whenRedisAnswers } from "./hot-errors.ts";
import { accountNotFound } from "./accounts.ts";
import type { Moves } from "../hot/moves.ts";
import { beginMove, maxPlaces, readPlaces } from "../store/account-shards.ts";
import { findAccounts } from "../store/accounts.ts";
import type { Database } from "../store/postgres.ts";
import type { Shards } from "../store/shards.ts";
import { checkId, refuse } from "./validate.ts";

type MoveAccountDeps = { database: Database; shards: Shards; moves: Moves };

/** Has accounts move to other shards; what is written down here goes on by itself (hot/moves.ts). */
export function moveHandlers(deps: MoveAccountDeps): Pick<UnaryHandlers<typeof AuthQuotaService>, "moveAccount"> {
  const { database, shards, moves } = deps;
  return {
    moveAccount: async ({ accountId, shard: wanted }) => {
      checkId("account_id", accountId);
      if (wanted < 0 || wanted >= shards.all.length) refuse(`shard must be 0 to ${shards.all.length - 1}`);
      if ((await findAccounts(database, [accountId])).length === 0) throw accountNotFound(accountId);
      const known = (await readPlaces(database)).find((place) => place.accountId === accountId);
      const shard = known?.shard ?? shards.homeOf(accountId).index;
      const isAsked = known?.movingTo === wanted || (known?.movingTo === undefined && shard === wanted);
      if (!isAsked && !(await beginMove(database, { accountId, shard, movingTo: wanted })))
        throw new ServiceError("failed_precondition", `${maxPlaces} accounts are elsewhere than their hashes say`);
      await moves.look();
      await whenRedisAnswers(moves.advance());
      await moves.look();
      const sums = await whenRedisAnswers(shards.of(accountId).readSums(accountId));
      return {
        shard: shards.of(accountId).index,
        isMoving: moves.isMoving(accountId),
        openHolds: BigInt(sums.openHolds),
        unpostedCalls: BigInt(sums.unpostedCalls),
      };
    },
  };
}
