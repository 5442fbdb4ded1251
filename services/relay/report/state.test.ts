import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { CircuitState, GetStateResponseSchema, RelayService } from "#proto/relay/v1/relay_pb.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { parseCatalog } from "../catalog/catalog.ts";
import { serveState, type OperatorRequests } from "./serve-state.ts";
import { tellState, type StateParts } from "./state.ts";
import { listeningLog } from "../testing/fakes.ts";
import { createUpstreamHealth } from "../upstream/health.ts";

const text = `maintenance: true
upstreams:
  near:
    base_url: https://near.example:8443/base
    dialects: [openai-chat]
    credential: { env: KEY }
    headers: { X-Org: { env: HEADER }, X-Plain: MARKER-plain-header }
    proxy: { env: PROXY }
    max_concurrent: 7
    open_after_failures: 1
  far: { base_url: http://far.example, dialects: [openai-images, openai-videos], credential: { env: KEY } }
  spare: { base_url: http://spare.example, dialects: [openai-chat], credential: { env: KEY } }
models:
  words:
    owned_by: somebody
    upstreams:
      - { name: near, model: words-1, weight: 3, cost: { input_tokens: "0.2" } }
      - { name: far, priority: 2 }
    context_tokens: 1000
    max_output_tokens: 100
    price:
      version: "2026-11-01"
      input_tokens: "0.25"
      output_tokens: "2.00"
      variants: [{ service_tier: priority, above_input_tokens: 200, multiplier: "2" }]
  pictures:
    owned_by: somebody
    dialects: [openai-images, openai-speech]
    upstreams: [{ name: far }]
    price: { version: "p1", images: "40000", characters: "1" }
  films:
    owned_by: somebody
    upstreams: [{ name: far }]
    video: { seconds: [4], sizes: [720x1280] }
    price: { version: "f1", media_ms: "100" }
`;
const environment = {
  KEY: "MARKER-credential",
  HEADER: "MARKER-header",
  PROXY: "http://MARKER-user:MARKER-password@proxy.example:3128",
};
const catalog = parseCatalog(text, "catalog.yaml", environment);
const clockMs = Date.UTC(2026, 10, 21, 12);

function partsOf(changes: Partial<StateParts> = {}): StateParts {
  return {
    relaySession: "relay_1",
    startedAt: new Date(clockMs - 60_000),
    isDraining: false,
    notReady: [],
    liveCalls: 0,
    catalog,
    file: { contentHash: "ab".repeat(32), loadedAt: new Date(clockMs - 30_000), problem: "" },
    health: createUpstreamHealth(),
    recentCalls: () => ({ served: 0, failed: 0 }),
    offersVideos: true,
    now: { monotonicMs: 5_000, clockMs },
    ...changes,
  };
}

const told = (changes: Partial<StateParts> = {}) => create(GetStateResponseSchema, tellState(partsOf(changes)));

test("each model is told with its calls of the last hour", () => {
  const recentCalls = (model: string) => ({ served: model.length, failed: model === "films" ? 2 : 0 });
  assert.deepEqual(
    told({ recentCalls }).catalog?.models.map(({ recentServed, recentFailed }) => [recentServed, recentFailed]),
    [
      [5n, 0n],
      [8n, 0n],
      [5n, 2n],
    ],
  );
});

test("models are told in the order of the file, with every price row, its condition and its nano-USD", () => {
  const models = told().catalog?.models ?? [];
  assert.deepEqual(
    models.map(({ name }) => name),
    ["words", "pictures", "films"],
  );
  const rows = models[0]?.prices.map(({ version, condition, unitPriceNanos }) => [
    version,
    condition,
    unitPriceNanos?.inputTokens,
    unitPriceNanos?.outputTokens,
    unitPriceNanos?.images,
  ]);
  assert.deepEqual(rows, [
    ["2026-11-01", "", 250_000_000n, 2_000_000_000n, 0n],
    [
      "2026-11-01+priority-above-200",
      "service_tier priority, more than 200 input tokens",
      500_000_000n,
      4_000_000_000n,
      0n,
    ],
  ]);
});

test("how much a model reads and writes is told where it makes text, and of others is not made up", () => {
  const sizes = told().catalog?.models.map(({ contextTokens, maxOutputTokens }) => [contextTokens, maxOutputTokens]);
  assert.deepEqual(sizes, [
    [1_000n, 100n],
    [0n, 0n],
    [0n, 0n],
  ]);
});

test("routes are told with their cost where the catalog says it", () => {
  const routes = told().catalog?.models[0]?.routes.map((route) => [
    route.upstream,
    route.model,
    route.priority,
    route.weight,
    route.unitCostNanos?.inputTokens,
  ]);
  assert.deepEqual(routes, [
    ["near", "words-1", 0, 3, 200_000_000n],
    ["far", "words", 2, 0, undefined],
  ]);
});

test("endpoints are those at which a model can be called: offered and reached; videos only where they are served", () => {
  const endpointsOf = (changes: Partial<StateParts>) =>
    told(changes).catalog?.models.map(({ name, endpoints }) => [name, endpoints]);
  const [words, pictures, films] = endpointsOf({}) ?? [];
  assert.deepEqual(words, ["words", ["/v1/chat/completions", "/v1/responses", "/v1/messages"]]);
  assert.deepEqual(pictures, ["pictures", ["/v1/images/generations"]], "no upstream of it speaks openai-speech");
  assert.deepEqual(films, ["films", ["/v1/videos"]]);
  assert.deepEqual(endpointsOf({ offersVideos: false })?.[2], ["films", []]);
});

test("upstreams are told in the order of the file, unused ones too, with their circuit, until when, and their calls", () => {
  const health = createUpstreamHealth();
  const [near, far] = catalog.upstreams;
  assert.ok(near && far);
  const failing = health.enter({ upstream: near, model: "words-1" }, 4_500);
  const refused = health.enter({ upstream: far, model: "pictures" }, 4_500);
  assert.ok(typeof failing === "object" && typeof refused === "object");
  health.judge(failing, "down", 4_500);
  health.coolDownAccount(refused, 4_500);
  const upstreams = told({ health }).catalog?.upstreams.map((one) => [
    one.name,
    one.baseUrl,
    one.dialects,
    one.circuit,
    one.closedUntil && timestampDate(one.closedUntil).getTime() - clockMs,
    one.liveCalls,
    one.maxCalls,
  ]);
  assert.deepEqual(upstreams, [
    ["near", "https://near.example:8443/base", ["openai-chat"], CircuitState.OPEN, 500, 1, 7],
    ["far", "http://far.example/", ["openai-images", "openai-videos"], CircuitState.COOLING_DOWN, 59_500, 1, 1_280],
    ["spare", "http://spare.example/", ["openai-chat"], CircuitState.CLOSED, undefined, 0, 1_280],
  ]);
});

test("the process and its file are told: when loaded, by which hash, why a newer one was refused, at most so much of it", () => {
  const file = { contentHash: "cd".repeat(32), loadedAt: new Date(clockMs), problem: "x".repeat(30_000) };
  const state = told({ file, isDraining: true, notReady: ["draining"], liveCalls: 3 });
  assert.deepEqual(
    [state.relaySession, state.isDraining, state.notReady, state.liveCalls],
    ["relay_1", true, ["draining"], 3n],
  );
  assert.equal(state.startedAt && timestampDate(state.startedAt).getTime(), clockMs - 60_000);
  assert.equal(state.catalog?.contentHash, file.contentHash);
  assert.equal(state.catalog?.loadedAt && timestampDate(state.catalog.loadedAt).getTime(), clockMs);
  assert.equal(state.catalog?.isMaintenance, true);
  assert.equal(state.catalog?.problem.length, 20_000);
});

/** The reason why a catalog is refused that holds secrets where none may be. */
function refusalOfSecrets(): string {
  const wrong = text
    .replace("https://near.example", "https://MARKER-name:MARKER-word@near.example")
    .replace("proxy: { env: PROXY }", "proxy: http://MARKER-u:MARKER-p@proxy.example");
  try {
    parseCatalog(wrong, "catalog.yaml", { ...environment, HEADER: "MARKER-a\nMARKER-b" });
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
  return "";
}

test("no secret is told: no credential, no header, no proxy, no user or query of an address, not in a refusal either", () => {
  const upstreams = catalog.upstreams.map((upstream) => {
    const baseUrl = new URL(upstream.baseUrl);
    baseUrl.username = "MARKER-user";
    baseUrl.password = "MARKER-pass";
    baseUrl.search = "?key=MARKER-query";
    return { ...upstream, baseUrl };
  });
  assert.equal(upstreams[0]?.credential, "MARKER-credential");
  assert.match(String(upstreams[0]?.headers), /MARKER-header.*MARKER-plain-header/);
  assert.match(String(upstreams[0]?.proxy), /MARKER-password/);
  const problem = refusalOfSecrets();
  assert.match(problem, /base_url must be without a user and a password/);
  const state = told({ catalog: { ...catalog, upstreams }, file: { ...partsOf().file, problem } });
  assert.match(toJsonString(GetStateResponseSchema, state), /near\.example:8443/);
  const encoded = Buffer.from(toBinary(GetStateResponseSchema, state)).toString("latin1");
  assert.ok(!encoded.includes("MARKER"), encoded);
});

test("the state is served over gRPC and gathered anew for each who asks", async () => {
  let liveCalls = 0;
  const gather = (): StateParts => partsOf({ liveCalls: (liveCalls += 1) });
  const text = "models: {}\n";
  const requests: OperatorRequests = {
    gather,
    file: () => ({ contentHash: hash("sha256", text), text }),
    check: async (asked) => ({ problems: [{ line: asked.length, reason: "wrong" }] }),
    test: async ({ upstream, model }) => ({ status: 200, problem: `${model} at ${upstream}` }),
  };
  await using listener = await serveState({ host: "127.0.0.1", port: 0 }, requests, listeningLog().log);
  using channel = connectGrpc(`127.0.0.1:${listener.port}`);
  const client = unaryClient(RelayService, channel, 5_000);
  assert.equal((await client.getState({})).liveCalls, 1n);
  assert.equal((await client.getState({})).liveCalls, 2n);
  const file = await client.getCatalogFile({});
  assert.deepEqual([file.text, file.contentHash], [text, hash("sha256", text)]);
  assert.equal((await client.checkCatalog({ text: "four" })).problems[0]?.line, 4);
  assert.equal((await client.testUpstream({ upstream: "near", model: "words" })).problem, "words at near");
});
