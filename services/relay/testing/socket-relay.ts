import type { AddressInfo } from "node:net";
import type { Operation } from "#proto/authquota/v1/authquota_pb.ts";
import { startFakeUpstream } from "#fake-provider/upstream.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { buildApp } from "../app.ts";
import type { Model } from "../catalog/models.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import type { SocketsLimits } from "../sockets/sockets.ts";
import { createReplyRoom } from "../http/reply-room.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { listeningLog, modelOf, scriptedQuota, settlingOf, upstreamOf } from "./fakes.ts";
import { loneConfig as config } from "./lone-config.ts";
import { relayOf } from "./relay-of.ts";

// USD per 1,000,000 of each: 4 and 16 for text, 32 and 64 for sound, 0.40 for what is cached, 5 for pictures.
const soundPrices = {
  inputTokens: 4_000_000_000n,
  outputTokens: 16_000_000_000n,
  audioInputTokens: 32_000_000_000n,
  audioOutputTokens: 64_000_000_000n,
  cacheReadTokens: 400_000_000n,
  imageInputTokens: 5_000_000_000n,
};
// 0.10 USD for 1,000 seconds.
const timePrices = { mediaMs: 100_000_000n };

type Answer = Parameters<typeof scriptedQuota>[0];

/** A yes for everything, with money for each call. */
const yes = (operation: Operation["operation"]) => ({
  accountId: "acct_1",
  keyId: "key_1",
  ...(operation.case === "reserve" && { heldNanos: operation.value.estimateNanos }),
});

/** "m" and models of other endpoints at an upstream; "other" at a second like it, and "both" at either. */
function modelsAt(patient: Upstream): Map<string, Model> {
  const at = (name: string) => [{ upstream: patient, model: name, priority: 0, weight: 0 }];
  const second = { ...patient, id: "other", name: "other" };
  return new Map(
    [
      modelOf({ routes: at("m") }),
      modelOf({ id: "other", routes: [{ upstream: second, model: "m", priority: 0, weight: 0 }] }),
      modelOf({ id: "both", routes: [...at("m"), { upstream: second, model: "m", priority: 1, weight: 0 }] }),
      modelOf({ id: "talk", routes: at("gpt-talk"), dialects: new Set(["openai-realtime"]), prices: soundPrices }),
      modelOf({ id: "timed", routes: at("gpt-timed"), dialects: new Set(["openai-realtime"]), prices: timePrices }),
      modelOf({
        id: "paint",
        routes: at("gpt-image-fake"),
        prices: { ...soundPrices, imageOutputTokens: 40_000_000_000n },
      }),
      modelOf({ id: "dall-e-2", routes: at("dall-e-2"), prices: { images: 20_000_000_000_000n } }),
      modelOf({ id: "hear", routes: at("whisper"), dialects: new Set(["openai-transcriptions"]), prices: timePrices }),
    ].map((model) => [model.id, model]),
  );
}

/** A relay with one model, "m", on a fake provider of responses; auth-quota answers as the test says. */
export async function startSocketRelay(
  limits: Partial<SocketsLimits> = {},
  {
    answer = yes,
    maxBodyBytes = 100_000_000,
    upstream: wanted = {},
  }: { answer?: Answer; maxBodyBytes?: number; upstream?: Partial<Upstream> } = {},
) {
  await using resources = new AsyncDisposableStack();
  const fake = resources.use(await startFakeUpstream());
  const { log, lines } = listeningLog();
  const settling = settlingOf({ quota: scriptedQuota(answer), log });
  const baseUrl = new URL(fake.url);
  const spoken = [
    "openai-responses",
    "openai-realtime",
    "openai-transcriptions",
    "openai-images",
    "openai-image-edits",
  ];
  const upstream = upstreamOf({ baseUrl, dialects: spoken, credential: "demo", maxConcurrent: 100 });
  const patient = { ...upstream, firstByteTimeoutMs: 60_000, idleTimeoutMs: 60_000, ...wanted };
  const models = modelsAt(patient);
  const state = { isMaintenance: false };
  const pools = resources.use(createPools());
  const threads = resources.use(createThreads(countThreads(settling.metrics, log)));
  const relay = relayOf(
    { models, settling, pools, threads, isMaintenance: () => state.isMaintenance },
    {
      bodyBudget: createBodyBudget(maxBodyBytes),
      replies: createReplyRoom(1_000_000),
      limits: { maxReplyBytes: 1_000_000, maxEventBytes: 16_777_216 },
    },
  );
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
