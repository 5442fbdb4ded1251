import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { fromBinary } from "@bufbuild/protobuf";
import { Verdict, type Operation, type ResultSchema } from "#proto/authquota/v1/authquota_pb.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { connectGrpc } from "#shared/grpc/grpc.ts";
import { until } from "#shared/testing/until.ts";
import { buildApp } from "../app.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import type { Model } from "../catalog/models.ts";
import { isPublicAddress, publicRules, type FetchRules } from "#shared/net/guarded-agent.ts";
import { openQuotaSession } from "../charge/quota-session.ts";
import { createReplyRoom } from "../http/reply-room.ts";
import { connectVideoTasks } from "../videos/tasks.ts";
import { createVideos, defaultVideoBounds, type VideoBounds } from "../videos/videos.ts";
import { listeningLog, memorySpool, modelOf, settlingOf, upstreamOf } from "./fakes.ts";
import { startQuotaServer } from "./quota-server.ts";
import { startTaskServer } from "./task-server.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { loneConfig as config } from "./lone-config.ts";
import { relayOf } from "./relay-of.ts";

type Result = MessageInitShape<typeof ResultSchema>;

/** A model of videos at 0.10 USD a second, 0.30 in the larger size. */
export function videoModelOf(changes: Partial<Model> = {}): Model {
  const id = changes.id ?? "sora-2";
  const upstream = upstreamOf({ dialects: ["openai-videos"] });
  const model = modelOf({
    id,
    dialects: new Set(),
    routes: [
      {
        upstream,
        model: `${id}-there`,
        priority: 0,
        weight: 0,
        cost: { prices: { mediaMs: 50_000_000_000n }, variants: [] },
      },
    ],
    prices: { mediaMs: 100_000_000_000n },
    priceVersion: "v1",
    video: { seconds: [4, 8, 12], sizes: ["720x1280", "1280x720"], takesReference: true, deadlineSeconds: 3_600 },
    ...changes,
  });
  const dear = { ...model, prices: { mediaMs: 300_000_000_000n }, priceVersion: "v1+1280x720" };
  return { ...model, variants: [{ where: { size: "1280x720" }, aboveInputTokens: -1, model: dear }] };
}

/** What auth-quota decides, in the test's words; undefined: a yes for account acct_1. */
export type Decide = (operation: Operation["operation"]) => Result | undefined;

type Setup = {
  models?: Model[];
  bounds?: Partial<VideoBounds>;
  /** Ports on this machine that addresses may lead to, beside the public ones. */
  allowedPorts?: number[];
  /** Whether the relay offers no videos. */
  isWithoutVideos?: boolean;
  isMaintenance?: boolean;
};

const rulesFor = (ports: number[]): FetchRules => ({
  ports: { "http:": ports.map(String), "https:": [""] },
  isAllowedAddress: (address) => address === "127.0.0.1" || isPublicAddress(address),
});

type HttpApp = ReturnType<typeof buildApp>;

async function listen(app: HttpApp, resources: AsyncDisposableStack): Promise<HttpApp> {
  await app.listen({ host: "127.0.0.1", port: 0 });
  resources.defer(() => app.close());
  return app;
}

/** A relay that serves videos, between an auth-quota and a service of videos that do what the test says. */
export async function startVideoRelay(setup: Setup = {}) {
  await using resources = new AsyncDisposableStack();
  const operations: Operation["operation"][] = [];
  const desk: { decide: Decide } = { decide: () => undefined };
  const quotaServer = resources.use(
    await startQuotaServer(({ operations: asked }) =>
      asked.map(({ operation }) => {
        operations.push(operation);
        const heldNanos = operation.case === "reserve" ? operation.value.estimateNanos : 0n;
        return desk.decide(operation) ?? { verdict: Verdict.OK, accountId: "acct_1", keyId: "key_1", heldNanos };
      }),
    ),
  );
  const taskServer = resources.use(await startTaskServer());
  const { log, lines } = listeningLog();
  const channel = resources.use(connectGrpc(`127.0.0.1:${quotaServer.port}`));
  const quota = resources.use(openQuotaSession(channel, "session-1", log));
  const spool = memorySpool();
  const published: Uint8Array[] = [];
  const settling = settlingOf({ quota, spool, publish: (bytes) => void published.push(bytes), log });
  const tasks = setup.isWithoutVideos ? undefined : resources.use(connectVideoTasks(`127.0.0.1:${taskServer.port}`));
  const bounds = { ...defaultVideoBounds, submitAgainMs: [5, 5], concludeAgainMs: 5, ...setup.bounds };
  const fetchRules = setup.allowedPorts ? rulesFor(setup.allowedPorts) : publicRules;
  const videos = resources.use(createVideos(tasks, { bounds, fetchRules }));
  const models = new Map((setup.models ?? [videoModelOf()]).map((model) => [model.id, model]));
  const threads = resources.use(createThreads(countThreads(settling.metrics, log)));
  const pools = resources.use(createPools());
  const relay = relayOf(
    { models, settling, pools, threads, isMaintenance: () => setup.isMaintenance ?? false },
    {
      bodyBudget: createBodyBudget(256_000_000),
      replies: createReplyRoom(1_000_000),
      limits: { maxReplyBytes: 1_000_000, maxEventBytes: 1_000_000 },
      videos,
    },
  );
  const app = await listen(buildApp(config, relay), resources);
  const { port } = app.server.address() as AddressInfo;
  await until("auth-quota is connected", () => quota.isConnected());
  const running = resources.move();
  return {
    app,
    relay,
    port,
    url: `http://127.0.0.1:${port}`,
    lines,
    taskServer,
    desk,
    published,
    spool,
    told: <C extends Operation["operation"]["case"]>(name: C) =>
      operations.flatMap((operation) => (operation.case === name ? [operation.value] : [])) as Extract<
        Operation["operation"],
        { case: C }
      >["value"][],
    charges: () => [...spool.records.values()].map((bytes) => fromBinary(UsageRecordedSchema, bytes)),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

export type VideoRelay = Awaited<ReturnType<typeof startVideoRelay>>;

export type JsonResponse = { status: number; headers: Headers; body: Record<string, unknown> };

/** Asks a relay with a right key, unless the headers say otherwise. */
export async function ask(relay: VideoRelay, path: string, init: RequestInit = {}): Promise<JsonResponse> {
  const headers = { authorization: "Bearer sk-right", ...(init.headers as Record<string, string>) };
  const answer = await fetch(`${relay.url}${path}`, { ...init, headers });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> };
}

/** Submits a video as JSON. */
export function submit(
  relay: VideoRelay,
  fields: object = {},
  headers: Record<string, string> = {},
): Promise<JsonResponse> {
  const body = JSON.stringify({ prompt: "a red fox", ...fields });
  return ask(relay, "/v1/videos", {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  });
}

/** What a caller was told that went wrong: status, type, code and message. */
export function errorOf({ status, body }: JsonResponse): [number, string, string, string] {
  const { type, code, message, param } = body["error"] as Record<string, string>;
  if (param !== "") throw new Error(`param ${String(param)}`);
  return [status, type ?? "", code ?? "", message ?? ""];
}

/** What a caller is told of a submission whose outcome nobody knows: nothing that makes a client send it again. */
export const outcomeUnknown: [number, string, string, string] = [
  400,
  "invalid_request_error",
  "",
  "The request could not be completed: it is not known whether the model service took the video, " +
    "look for it in the list before you submit another",
];

/** Nothing is held, charged or under way for the call. */
export async function checkClosed(relay: VideoRelay): Promise<void> {
  await until("the hold is released", () => relay.told("release").length === relay.told("reserve").length);
  assert.deepEqual(relay.charges(), []);
  assert.equal(relay.relay.live.size, 0);
  assert.equal(relay.relay.videos.submissions, 0);
}
