import { setTimeout as pause } from "node:timers/promises";
import { usageStream } from "#shared/stores/usage-stream.ts";
import { startRedisSentinel } from "../../../services/auth-quota/testing/redis-sentinel.ts";
import type { Drill } from "./drill.ts";
import { startNatsNodes } from "./nats-nodes.ts";
import { startPostgresPair } from "./postgres-pair.ts";
import { killAhead } from "./redis-drills.ts";

/** All masters die together, two of them ahead of those that follow: what a zone takes with it. */
const zoneLost: Drill = {
  name: "zone-lost",
  says: "PostgreSQL's primary and Redis' master, both ahead of their replicas, and NATS' leader die together",
  stage: async (resources) => {
    const pair = resources.use(await startPostgresPair());
    const redis = resources.use(await startRedisSentinel());
    const nats = resources.use(await startNatsNodes());
    return {
      scene: {
        given: { postgres: pair.url, redis: redis.url, nats: nats.url },
        direct: ["REDIS_URL", "NATS_URL"],
        billing: { USAGE_STREAM_REPLICAS: "3" },
      },
      harm: async (_scenario, round) => {
        await round.more(40);
        const leader = await nats.leaderOf(usageStream);
        pair.replication.cut();
        await round.more(60);
        await Promise.all([killAhead(redis.master, redis.replica, round), pair.primary.kill(), leader.kill()]);
        await pause(2_000);
        await pair.promote();
        pair.front.leadTo(pair.replica.port);
        await round.untilServed();
        await Promise.all([leader.restart(), redis.master.restart()]);
        await round.more(60);
      },
    };
  },
};

export const zoneDrills: readonly Drill[] = [zoneLost];
