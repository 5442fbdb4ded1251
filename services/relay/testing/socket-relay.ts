import type { AddressInfo } from "node:net";
import type { Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { startFakeUpstream } from "#fake-provider/upstream.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { createActiveSet } from "#shared/process/active-set.ts";
import { buildApp } from "../app.ts";
import type { Relay } from "../call.ts";
import { createItemMemory } from "../conversion/item-memory.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import type { SocketsLimits } from "../sockets/sockets.ts";
import { createOrphans } from "../stream/orphans.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { createUpstreamHealth } from "../upstream/health.ts";
import { createVideos } from "../videos/videos.ts";
import { listeningLog, modelOf, scriptedQuota, settlingOf, upstreamOf } from "./fakes.ts";
import { loneConfig as config } from "./lone-config.ts";

type Answer = Parameters<typeof scriptedQuota>[0];

/** A yes for everything, with money for each call. */
const yes = (operation: Operation["operation"]) => ({
  accountId: "acct_1",
  keyId: "key_1",
  heldNanos: operation.case === "reserve" ? operation.value.estimateNanos : 0n,
});

/** A relay with one model, "m", on a fake provider of responses; auth-quota answers as the test says. */
export async function startSocketRelay(
  limits: Partial<SocketsLimits> = {},
  { answer = yes, maxBodyBytes = 100_000_000 }: { answer?: Answer; maxBodyBytes?: number } = {},
) {
  await using resources = new AsyncDisposableStack();
  const fake = resources.use(await startFakeUpstream());
  const { log, lines } = listeningLog();
  const settling = settlingOf({ quota: scriptedQuota(answer), log });
  const baseUrl = new URL(fake.url);
  const upstream = upstreamOf({ baseUrl, dialects: ["openai-responses"], credential: "demo", maxConcurrent: 100 });
  const patient = { ...upstream, firstByteTimeoutMs: 60_000, idleTimeoutMs: 60_000 };
  const model = modelOf({ routes: [{ upstream: patient, model: "m", priority: 0, weight: 0 }] });
  const state = { isMaintenance: false };
  const relay: Relay = {
    catalog: {
      current: () => ({ models: new Map([["m", model]]), upstreams: [], isMaintenance: state.isMaintenance }),
      isStale: () => false,
      [Symbol.dispose]: () => undefined,
    },
    pools: resources.use(createPools()),
    health: createUpstreamHealth(),
    threads: resources.use(createThreads(countThreads(settling.metrics, log))),
    bodyBudget: createBodyBudget(maxBodyBytes),
    items: createItemMemory(),
    tracing: { share: 0, hasGenAi: false },
    settling,
    metrics: settling.metrics,
    log,
    limits: { maxReplyBytes: 1_000_000, maxEventBytes: 16_777_216 },
    live: createActiveSet(),
    orphans: createOrphans(settling),
    videos: createVideos(undefined),
    isDraining: false,
  };
  const app = buildApp(config, relay, { socketLimits: { checkEveryMs: 10, ...limits } });
  await app.listen({ host: "127.0.0.1", port: 0 });
  resources.defer(async () => {
    app.connections.breakAll();
    await app.close();
  });
  const { port } = app.server.address() as AddressInfo;
  const owned = resources.move();
  const url = `http://127.0.0.1:${port}`;
  return { app, relay, fake, lines, port, url, state, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
