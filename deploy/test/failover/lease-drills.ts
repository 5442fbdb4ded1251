import { setTimeout as pause } from "node:timers/promises";
import { until } from "#shared/testing/until.ts";
import { startRedisSentinel } from "../../../services/auth-quota/testing/redis-sentinel.ts";
import type { Round, Scenario } from "../chaos/scenario.ts";
import type { CallLog } from "../e2e/caller.ts";
import { readMetric, soundButBroken } from "../e2e/kills.ts";
import type { Drill } from "./drill.ts";
import { untilFollowed } from "./redis-drills.ts";

const warmMs = 30_000;
// Less than is left of any lease.
const servedMs = 5_000;
// As in production: leases last no longer than a relay may be silent.
const usualSilence = { RELAY_SILENT_MS: "120000" };

/** Waits until the keys of the two customers with money have leases. */
async function untilWarm({ world }: Scenario, round: Round): Promise<void> {
  const { opsUrl } = world.stack.services.relay;
  await round.more(100);
  await until("calls are admitted within leases", async () => (await readMetric(opsUrl, "relay_leases")) >= 2, warmMs);
}

/** Drills in which callers with leases may not notice what happens to auth-quota or its store. */
export const leaseDrills: readonly Drill[] = [
  {
    name: "leases-sentinel",
    says: "the master behind three Sentinels is killed under calls within leases, none of which fails",
    stage: async (resources) => {
      const servers = resources.use(await startRedisSentinel());
      return {
        scene: { given: { redis: servers.url }, direct: ["REDIS_URL"], hasLeases: true, authQuota: usualSilence },
        harm: async (scenario, round) => {
          round.isUnnoticed = true;
          await untilFollowed(servers.master);
          await untilWarm(scenario, round);
          await servers.master.kill();
          await round.untilServed();
          await round.more(100);
        },
      };
    },
  },
  {
    name: "leases-auth-quota",
    says: "auth-quota is killed under calls within leases, none of which fails for five seconds",
    stage: async () => ({
      scene: { hasLeases: true, authQuota: usualSilence },
      harm: async (scenario, round) => {
        await untilWarm(scenario, round);
        const { authQuota } = scenario.world.stack.services;
        await authQuota.kill();
        const killedAtMs = Date.now();
        await pause(servedMs);
        await authQuota.restart();
        await round.untilServed();
        const own = round.load.calls.filter((call) => isOwn(round, call, killedAtMs));
        round.problems.push(...soundButBroken(own));
        if (own.length === 0) round.problems.push("no call began while auth-quota was away");
      },
    }),
  },
];

/** Whether a call of a customer with money began while nobody but its relay could admit it. */
function isOwn({ customers: [one, other] }: Round, { plan, startedAtMs }: CallLog, killedAtMs: number): boolean {
  const isRich = plan.accountId === one?.accountId || plan.accountId === other?.accountId;
  return isRich && startedAtMs >= killedAtMs && startedAtMs < killedAtMs + servedMs;
}
