import type { IncomingHttpHeaders } from "node:http";
import type { Logger } from "#shared/log.ts";
import type { Route } from "./choose.ts";
import type { Dialect, Envelope } from "./dialects/dialect.ts";
import { CallFailure } from "./failures.ts";
import type { LiveCall } from "./live-call.ts";
import type { Metrics } from "./metrics.ts";
import { send, SendError, type Answer, type Pools, type SendSignal } from "./send.ts";

// Unencoded, because the meter reads the answer on its way.
const standardHeaders = [
  "content-type",
  "application/json",
  "accept-encoding",
  "identity",
  "user-agent",
  "model-relay",
];

/** What reaching an upstream needs of its process. */
export type Reach = { pools: Pools; metrics: Metrics; log: Logger };

/** A call on its way out. */
export type Outgoing = {
  call: LiveCall;
  envelope: Envelope;
  dialect: Dialect;
  routes: Route[];
  callerHeaders: IncomingHttpHeaders;
  signal: SendSignal;
};

/** The answer of the upstream that took the call. */
export type Answered = { answer: Answer; route: Route };

/** Asks the upstreams in order; the next one only when the one before certainly never saw the request. */
export async function reachUpstream(
  { call, envelope, dialect, routes, callerHeaders, signal }: Outgoing,
  { pools, metrics, log }: Reach,
): Promise<Answered> {
  if (signal.isAborted) throw new CallFailure({ name: "service_unavailable", cause: "the caller went away" });
  let lastError: unknown;
  for (const route of routes) {
    const { upstream, model } = route;
    call.upstream = upstream.name;
    call.upstreamModel = model;
    const headers = [...standardHeaders, "accept", envelope.isStream ? "text/event-stream" : "application/json"];
    headers.push("x-request-id", call.rid, ...dialect.upstreamHeaders(upstream.credential, callerHeaders));
    const path = `${upstream.baseUrl.pathname.replace(/\/$/, "")}${dialect.path}`;
    const sentAt = performance.now();
    try {
      const pool = pools.poolOf(upstream);
      const answer = await send(pool, { path, headers, body: dialect.prepareBody(envelope, model), signal });
      call.firstByteAtMs = Date.now();
      metrics.firstByteSeconds.observe({ upstream: upstream.name }, (performance.now() - sentAt) / 1_000);
      return { answer, route };
    } catch (error) {
      lastError = error;
      if (!(error instanceof SendError && error.isUnsent)) break;
      log.warn({ rid: call.rid, upstream: upstream.name, err: error.cause }, "upstream not reached");
    }
  }
  throw lastError;
}
