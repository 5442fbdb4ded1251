import type { BillingService } from "#proto/billing/v1/billing_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Moves } from "./moves.ts";
import type { Metrics } from "../metrics.ts";
import type { RecoveryLock } from "../store/hot.ts";
import type { Eviction } from "../store/eviction.ts";
import { readGeneration, writeGeneration } from "../store/generation.ts";
import type { Database } from "../store/postgres.ts";
import type { Shard } from "../store/shards.ts";

export type RebuildDeps = {
  hot: Shard;
  database: Database;
  billing: Pick<UnaryClient<typeof BillingService>, "getProgress">;
  metrics: Metrics;
  log: Logger;
  moves: Pick<Moves, "markAgain">;
  /** Has settings that were changed lately pushed again. */
  repush: () => Promise<void>;
  /** How long relays have to restore their holds. */
  rebuildMs: number;
};

/**
 * Creates the pass that checks whether a shard has lost data. A Redis that lost everything, or its last moments, grants
 * no calls until its relays have had time to restore their holds and the ledger has booked everything that was on
 * its way at the loss: only then do balances and holds together say what is available (rule M8 of state.lua). Rejects
 * when a store does not answer; the recovery lock then stays as it is.
 */
export function createRebuild(deps: RebuildDeps): () => Promise<void> {
  const { index } = deps.hot;
  const isEvicting = createEvictionWatch(deps);
  let remembered = "";
  return async () => {
    if (await isEvicting()) return;
    const lock = (await deps.hot.readRecoveryLock()) ?? (await establish(deps));
    if (!lock) return;
    if (lock.generation !== remembered) {
      faultPoint("auth-quota: generation established, not remembered");
      await writeGeneration(deps.database, index, lock.generation);
      deps.log.info(
        { shard: index, generation: lock.generation, isLocked: lock.closedMs !== undefined },
        "hot store generation",
      );
      remembered = lock.generation;
    }
    deps.metrics.recoveryLock(index, lock.closedMs);
    if (lock.closedMs !== undefined) await tryToOpen(deps, lock, lock.closedMs);
  };
}

/** Creates the look whether Redis evicts the hot money. Then it is retired; that it might is told once. */
function createEvictionWatch({ hot, metrics, log }: RebuildDeps): () => Promise<boolean> {
  let known: Eviction = "none";
  let sinceMs = 0;
  return async () => {
    const found = await hot.readEviction();
    if (found !== known) {
      sinceMs = performance.now();
      if (found === "evicts") log.error({ shard: hot.index }, `Redis evicts keys when its memory is full: ${remedy}`);
      if (found === "evicted")
        log.error({ shard: hot.index }, `Redis has evicted keys, no calls are granted: ${remedy}`);
    }
    known = found;
    if (found !== "evicted") return false;
    await hot.retireEvicted();
    metrics.recoveryLock(hot.index, performance.now() - sinceMs);
    return true;
  };
}

const remedy = "set maxmemory-policy noeviction; where keys are gone, empty it (FLUSHALL), and all is rebuilt";

// Only PostgreSQL can tell a new installation from one whose Redis lost everything.
async function establish({ hot, database, log, repush }: RebuildDeps): Promise<RecoveryLock | undefined> {
  if (await hot.isEvicted()) return undefined;
  const hadOne = (await readGeneration(database, hot.index)) !== undefined;
  if (hadOne)
    log.error({ shard: hot.index }, "Redis lost all data: no calls are granted until holds and balances are rebuilt");
  if (hadOne) await repush();
  await hot.establish(hadOne);
  return hot.readRecoveryLock();
}

async function tryToOpen(
  { hot, billing, moves, log, rebuildMs }: RebuildDeps,
  lock: RecoveryLock,
  closedMs: number,
): Promise<void> {
  const { generation, sequence } = lock;
  const { lastSequence, bookedSequence } = await billing.getProgress({});
  if (sequence === undefined) {
    await hot.apply("", [["note-sequence", generation, String(lastSequence)]]);
    return;
  }
  // A stream that lost its data too restarts at sequence 0; then only what it holds now needs to be booked.
  const isBooked = bookedSequence >= (sequence < lastSequence ? sequence : lastSequence);
  if (closedMs < rebuildMs || !isBooked) return;
  // What left this shard must not be granted here again.
  await moves.markAgain(hot);
  faultPoint("auth-quota: everything rebuilt, recovery lock not open");
  await hot.apply("", [["open-gate", generation]]);
  log.info({ shard: hot.index, generation, closedMs }, "hot store rebuilt, granting calls again");
}
