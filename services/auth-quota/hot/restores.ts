import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Database } from "../store/postgres.ts";
import type { Shards } from "../store/shards.ts";
import { countRestores, isBehind, isRestored, takeChanges } from "../store/restores.ts";
import type { Identities } from "./identity.ts";

export type RestoreWatchDeps = {
  database: Database;
  billing: Pick<UnaryClient<typeof BillingService>, "getProgress">;
  identities: Pick<Identities, "forget">;
  shards: Shards;
  log: Logger;
};

/**
 * Creates the pass that notices a database which was restored or promoted. Changes that it has forgotten and Redis has
 * not come back first. Then all settings go to Redis again, with newer versions, and what nobody knows any more is
 * forgotten here, too, so that such keys work no longer. Rejects while a shard does not answer, to be tried again.
 */
export function createRestoreWatch(deps: RestoreWatchDeps): () => Promise<void> {
  const { database, billing, identities, shards, log } = deps;
  let known: number | undefined;
  return async () => {
    const ledgerEpoch = await billing.getProgress({}).then(
      (progress) => progress.ledgerEpoch,
      () => 0,
    );
    const newest = await Promise.all(shards.all.map((shard) => shard.readNewestChanges()));
    const signs = { ledgerEpoch, isBehind: await isBehind(database, newest.flat()) };
    const changes = (await isRestored(database, signs)) ? await takeAll(deps) : 0;
    const restores = await countRestores(database, signs);
    if (restores === undefined || restores === known) return;
    if (known !== undefined || restores > 0) identities.forget();
    if (known !== undefined)
      log.warn({ restores, changes }, "key database was restored or promoted: pushing all settings again");
    known = restores;
  };
}

async function takeAll({ database, shards }: RestoreWatchDeps): Promise<number> {
  let taken = 0;
  for (const kind of ["account", "key"] as const) {
    for (const shard of shards.all) {
      for await (const changes of shard.readChanges()) taken += await takeChanges(database, kind, changes);
    }
  }
  return taken;
}
