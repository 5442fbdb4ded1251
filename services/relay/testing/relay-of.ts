import type { Pools } from "#shared/catalog/pools.ts";
import { createActiveSet } from "#shared/process/active-set.ts";
import type { Relay } from "../call.ts";
import type { Model } from "../catalog/models.ts";
import type { SettlementDeps } from "../charge/settle.ts";
import { createItemMemory } from "../conversion/item-memory.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createReplyRoom } from "../http/reply-room.ts";
import { createOrphans } from "../stream/orphans.ts";
import type { Threads } from "../threads/threads.ts";
import { createUpstreamHealth } from "../upstream/health.ts";
import { createVideos } from "../videos/videos.ts";
import { loneConfig as config } from "./lone-config.ts";

/** What a test has of its own; it closes what it has opened. */
type Parts = {
  models: Map<string, Model>;
  settling: SettlementDeps;
  pools: Pools;
  threads: Threads;
  isMaintenance?: () => boolean;
};

/** A relay that serves these models, as configured where `changes` do not say otherwise. */
export function relayOf(
  { models, settling, pools, threads, isMaintenance = () => false }: Parts,
  changes: Partial<Relay> = {},
): Relay {
  return {
    catalog: {
      current: () => ({ models, upstreams: [], isMaintenance: isMaintenance() }),
      isStale: () => false,
    },
    pools,
    health: createUpstreamHealth(),
    threads,
    bodyBudget: createBodyBudget(config.MAX_BODY_BYTES_IN_FLIGHT),
    replies: createReplyRoom(config.MAX_REPLY_BYTES),
    items: createItemMemory(),
    loggedShare: 1,
    tracing: { share: 0, hasGenAi: false },
    settling,
    metrics: settling.metrics,
    log: settling.log,
    limits: { maxReplyBytes: config.MAX_REPLY_BYTES, maxEventBytes: config.MAX_STREAM_EVENT_BYTES },
    live: createActiveSet(),
    orphans: createOrphans(settling),
    videos: createVideos(undefined),
    isDraining: false,
    ...changes,
  };
}
