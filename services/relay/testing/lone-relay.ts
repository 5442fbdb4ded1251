import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { createActiveSet } from "#shared/process/active-set.ts";
import { buildApp } from "../app.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createItemMemory } from "../conversion/item-memory.ts";
import { dialectNames } from "../dialects/dialect.ts";
import { createOrphans } from "../stream/orphans.ts";
import { createReplyRoom } from "../http/reply-room.ts";
import { createUpstreamHealth } from "../upstream/health.ts";
import { createVideos } from "../videos/videos.ts";
import { listeningLog, modelOf, scriptedQuota, settlingOf, upstreamOf } from "./fakes.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { loneConfig as config } from "./lone-config.ts";

// A relay in a process of its own, whose every caller has a key and no money. It writes its port and goes on until its
// standard input ends.
const converted = modelOf({
  id: "converted",
  routes: [{ upstream: upstreamOf({ dialects: ["gemini-generate"] }), model: "m", priority: 0, weight: 0 }],
});
const spoken = modelOf({
  routes: [{ upstream: upstreamOf({ dialects: [...dialectNames] }), model: "m", priority: 0, weight: 0 }],
});
const models = new Map([spoken, converted].map((model) => [model.id, model]));
const quota = scriptedQuota((operation) =>
  operation.case === "reserve" ? { verdict: Verdict.BALANCE } : { accountId: "acct_1" },
);
const settling = settlingOf({ quota, log: listeningLog().log });
await using pools = createPools();
await using threads = createThreads(countThreads(settling.metrics, settling.log));
const app = buildApp(config, {
  catalog: {
    current: () => ({ models, upstreams: [], isMaintenance: false }),
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
});
await app.listen({ host: "127.0.0.1", port: 0 });
process.stdout.write(`${(app.server.address() as AddressInfo).port}\n`);
process.stdin.resume();
await once(process.stdin, "end");
app.server.closeAllConnections();
await app.close();
