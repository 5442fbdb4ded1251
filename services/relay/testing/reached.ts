import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Writable } from "node:stream";
import { createRegistry } from "#shared/metrics/ops.ts";
import { createPools } from "#shared/catalog/pools.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import { createPreparation } from "../conversion/prepare.ts";
import type { DialectName } from "../dialects/dialect.ts";
import { dialects } from "../dialects/index.ts";
import { CallFailure } from "../failures.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createMetrics } from "../metrics.ts";
import { watchUpstreams } from "../upstream/gauges.ts";
import { createUpstreamHealth } from "../upstream/health.ts";
import { reachUpstream, type OutgoingCall } from "../upstream/reach.ts";
import { createSendSignal } from "../upstream/send.ts";
import { readWhole } from "../upstream/whole.ts";
import { envelopeOf, listeningLog, liveCallOf, modelOf, upstreamOf } from "./fakes.ts";
import { serveHttp } from "./raw-client.ts";

export type Answering = (request: IncomingMessage, response: ServerResponse) => void;

/** An upstream on this machine that answers as the test says and counts the calls. */
type Served = AsyncDisposable & {
  upstream: Upstream;
  seen: IncomingMessage[];
  answer: (answering: Answering) => void;
};

export const fine: Answering = (_, response) => void response.end("fine");

export const refusing =
  (
    status: number,
    headers: Record<string, string> = {},
    error: object = { message: `words of ${status}` },
  ): Answering =>
  (_, response) =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify({ error }));

export const resetting: Answering = ({ socket }) => void socket.resetAndDestroy();

export async function serve(name: string, first: Answering = fine, changes: Partial<Upstream> = {}): Promise<Served> {
  const seen: IncomingMessage[] = [];
  let answering = first;
  const server = await serveHttp((request, response) => {
    seen.push(request);
    request.resume();
    answering(request, response);
  });
  return {
    upstream: upstreamOf({ name, baseUrl: new URL(`http://127.0.0.1:${server.port}/base`), ...changes }),
    seen,
    answer: (next) => (answering = next),
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}

/** An upstream that nobody serves. */
export const away = (name: string): Upstream => upstreamOf({ name, baseUrl: new URL("http://127.0.0.1:1") });

export function createReach() {
  const registry = createRegistry("test");
  const { log, lines } = listeningLog();
  const health = createUpstreamHealth();
  watchUpstreams(registry, health);
  const pools = createPools();
  return {
    pools,
    health,
    metrics: createMetrics(registry),
    log,
    lines,
    linesWith: (message: string) => lines.filter((line) => Object.values(line).includes(message)),
    /** The samples of a metric, as Prometheus reads them. */
    samples: async (name: string): Promise<string[]> => {
      const text = await registry.getSingleMetricAsString(name);
      return text.split("\n").filter((line) => line.startsWith(name) && !line.endsWith(" 0"));
    },
    underWay: () => health.list(0).map(({ underWay }) => underWay),
    [Symbol.asyncDispose]: () => pools[Symbol.asyncDispose](),
  };
}

export function outgoingTo(upstreams: Upstream[], dialect: DialectName = "openai-chat", fields = {}): OutgoingCall {
  const envelope = envelopeOf({ max_tokens: 5, ...fields }, dialect);
  return {
    call: liveCallOf({ upstream: "", upstreamModel: "" }),
    envelope,
    preparation: createPreparation({
      envelope,
      dialect: dialects[dialect],
      model: modelOf(),
      inputTokens: 0,
      share: () => createBodyBudget(0).share(new Writable(), { address: "192.0.2.1", accountId: "acct_1" }),
    }),
    routes: upstreams.map((upstream, index) => ({ upstream, model: `model-${index}`, priority: 0, weight: 0 })),
    callerHeaders: {},
    signal: createSendSignal(),
  };
}

type Reached = ReturnType<typeof createReach>;

/** Reaches one of the upstreams, reads its answer to the end and gives its name. */
export async function servedBy(
  reach: Reached,
  upstreams: Upstream[],
  outgoing = outgoingTo(upstreams),
): Promise<string> {
  const { answer, route } = await reachUpstream(outgoing, reach);
  assert.equal((await readWhole(answer, 100)).toString(), "fine");
  assert.deepEqual([outgoing.call.upstream, outgoing.call.upstreamModel], [route.upstream.name, route.model]);
  return route.upstream.name;
}

/** Why no upstream served the call. */
export async function failureOf(reach: Reached, upstreams: Upstream[], outgoing = outgoingTo(upstreams)) {
  try {
    await reachUpstream(outgoing, reach);
  } catch (error) {
    assert.ok(error instanceof CallFailure, String(error));
    return { ...error.failure, upstream: outgoing.call.upstream };
  }
  return assert.fail("an upstream has answered");
}
