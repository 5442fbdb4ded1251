import { until } from "#shared/testing/until.ts";
import { accountHash } from "#shared/money/account-hash.ts";
import { moveFaultPoints } from "../chaos/fault-points.ts";
import { strikeAt } from "../chaos/process-faults.ts";
import type { RedisCluster } from "../../../services/auth-quota/testing/redis-cluster.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import type { Drill } from "./drill.ts";
import { clusterDrill } from "./redis-drills.ts";

const shards = 6;
const movedMs = 90_000;

/** Has an account move, and waits until it is there. */
async function move({ world }: Scenario, accountId: string, shard: number): Promise<void> {
  await until(
    "the account has moved",
    async () => {
      const moved = await world.authQuota.moveAccount({ accountId, shard });
      return !moved.isMoving && moved.shard === shard;
    },
    movedMs,
  );
}

const shardsFrom = (accountId: string): number[] => {
  const home = accountHash(accountId) % shards;
  return Array.from({ length: shards - 1 }, (_, step) => (home + step + 1) % shards);
};

/** Every account moves on from shard to shard while its calls run, and home again. */
async function moveAll(scenario: Scenario, round: Round): Promise<void> {
  for (const step of [0, 1]) {
    for (const { accountId } of round.customers) await move(scenario, accountId, shardsFrom(accountId)[step] ?? 0);
    await round.more(40);
  }
  for (const { accountId } of round.customers) await move(scenario, accountId, accountHash(accountId) % shards);
  await round.untilServed();
  await round.more(40);
}

/** The process that moves an account dies between two steps of it, and a master with its shard is emptied. */
async function moveAmidFaults(cluster: RedisCluster, round: Round, scenario: Scenario): Promise<void> {
  await round.more(40);
  const [first] = round.customers;
  if (!first) throw new Error("there is no customer");
  const ways = shardsFrom(first.accountId);
  for (const [at, point] of moveFaultPoints.entries()) {
    const to = ways[at] ?? 0;
    const asked = { accountId: first.accountId, shard: to };
    // Whoever passes it may be answering this, or looks for moves by itself.
    const ask = async (): Promise<unknown> => scenario.world.authQuota.moveAccount(asked).catch(() => undefined);
    scenario.say(`dies at "${point.name}"`);
    await strikeAt(scenario, round, point, ask);
    await move(scenario, first.accountId, to);
    await round.untilServed();
    await round.more(40);
  }
  for (const { admin } of [cluster.master, ...cluster.others]) {
    await admin.flushall();
    await round.untilServed();
    await round.more(20);
  }
}

export const moveDrills: readonly Drill[] = [
  clusterDrill(
    "move-accounts",
    "with six shards, accounts move between them under load and home again",
    (_cluster, round, scenario) => moveAll(scenario, round),
    shards,
  ),
  clusterDrill(
    "move-amid-faults",
    "auth-quota dies between the steps of a move, then each master is emptied",
    moveAmidFaults,
    shards,
  ),
];
