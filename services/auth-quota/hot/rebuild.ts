import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Metrics } from "../metrics.ts";
import type { RecoveryLock, HotStore } from "../store/hot.ts";
import { readGeneration, writeGeneration } from "../store/generation.ts";
import type { Database } from "../store/postgres.ts";

export type RebuildDeps = {
  hot: HotStore;
  database: Database;
  billing: Pick<UnaryClient<typeof BillingService>, "getProgress">;
  metrics: Metrics;
  log: Logger;
  /** How long relays have to restore their holds. */
  rebuildMs: number;
};

/**
 * Makes a look at whether Redis still is what it was. A Redis that has lost everything, or its last moments, grants
 * nothing until its relays have had the time to restore their holds, and until the ledger holds everything that was on
 * its way when it lost it: only then do balances and holds together say again what is available (rule M8 of state.lua).
 * Rejects when a store does not answer; the gate then stays as it is.
 */
export function createRebuild(deps: RebuildDeps): () => Promise<void> {
  let remembered = "";
  return async () => {
    const gate = (await deps.hot.readGate()) ?? (await establish(deps));
    if (!gate) return;
    if (gate.generation !== remembered) {
      await writeGeneration(deps.database, gate.generation);
      deps.log.info({ generation: gate.generation, isGateClosed: gate.closedMs !== undefined }, "hot store generation");
      remembered = gate.generation;
    }
    deps.metrics.gate(gate.closedMs);
    if (gate.closedMs !== undefined) await tryToOpen(deps, gate, gate.closedMs);
  };
}

// Only PostgreSQL can tell a new installation from one whose Redis has lost everything.
async function establish({ hot, database, log }: RebuildDeps): Promise<RecoveryLock | undefined> {
  const hadOne = (await readGeneration(database)) !== undefined;
  if (hadOne) log.error("Redis lost all data: no calls are granted until holds and balances are rebuilt");
  await hot.establish(hadOne);
  return hot.readGate();
}

async function tryToOpen(
  { hot, billing, log, rebuildMs }: RebuildDeps,
  gate: RecoveryLock,
  closedMs: number,
): Promise<void> {
  const { generation, sequence } = gate;
  const { lastSequence, bookedSequence } = await billing.getProgress({});
  if (sequence === undefined) {
    await hot.apply("", [["note-sequence", generation, String(lastSequence)]]);
    return;
  }
  // A stream that has lost its data too counts from 0 again: what it holds now is then all there is to wait for.
  const isBooked = bookedSequence >= (sequence < lastSequence ? sequence : lastSequence);
  if (closedMs < rebuildMs || !isBooked) return;
  await hot.apply("", [["open-gate", generation]]);
  log.info({ generation, closedMs }, "hot store rebuilt, granting calls again");
}
