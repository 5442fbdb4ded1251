import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Database } from "../store/postgres.ts";
import { countRestores } from "../store/restores.ts";
import type { Identities } from "./identity.ts";

export type RestoreWatchDeps = {
  database: Database;
  billing: Pick<UnaryClient<typeof BillingService>, "getProgress">;
  identities: Pick<Identities, "forget">;
  log: Logger;
};

/**
 * Creates the pass that notices a database which was restored or promoted. Its settings go to Redis again, with newer
 * versions, and keys that it does not have any more are forgotten, so that they work no longer.
 */
export function createRestoreWatch({ database, billing, identities, log }: RestoreWatchDeps): () => Promise<void> {
  let known: number | undefined;
  return async () => {
    const ledgerEpoch = await billing.getProgress({}).then(
      (progress) => progress.ledgerEpoch,
      () => 0,
    );
    const restores = await countRestores(database, ledgerEpoch);
    if (restores === undefined || restores === known) return;
    if (known !== undefined || restores > 0) identities.forget();
    if (known !== undefined)
      log.warn({ restores }, "key database was restored or promoted: pushing all settings again");
    known = restores;
  };
}
