import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocket, type ClientOptions } from "ws";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { Relay } from "../../call.ts";
import type { Route } from "../../catalog/choose.ts";
import { dialects } from "../../dialects/index.ts";
import { eventJson } from "../../dialects/sse.ts";
import { CallFailure, type Failure } from "../../failures.ts";
import { upstreamFailure } from "../../upstream/failure.ts";
import { countFault, faultOfError, faultOfStatus } from "../../upstream/faults.ts";
import { obstacles, type Obstacle, type Place } from "../../upstream/health.ts";
import { failuresOfObstacles, isFailover } from "../../upstream/reach.ts";
import { learn, learnFromError, type Attempt } from "../../upstream/record-attempt.ts";
import { SendError } from "../../upstream/send.ts";
import { isSeenByProxy, socketAddress, socketOptions } from "../../upstream/socket-options.ts";

const dialect = dialects["openai-realtime"];

// As large as what callers may send.
const maxFrameBytes = 16 * 1024 * 1024;
const maxErrorBytes = 65_536;
const errorTimeoutMs = 2_000;
const maxHandshakeMs = 30_000;

/** A session's connection to its provider; it does not flow yet. */
export type UpstreamSocket = { webSocket: WebSocket; connection: Duplex; route: Route; place: Place };

type Asked = { rid: string; accountId: string; headers: IncomingHttpHeaders; isGone: () => boolean };

function optionsOf(upstream: Upstream, { rid, headers }: Asked): ClientOptions {
  // The shape of events of the beta, which some clients still speak.
  const beta = String(headers["openai-beta"] ?? "").includes("realtime=v1") ? { "openai-beta": "realtime=v1" } : {};
  return socketOptions(upstream, {
    headers: dialect.upstreamHeaders(upstream.credential, {}),
    more: { "x-request-id": rid, ...beta },
    maxPayload: maxFrameBytes,
    handshakeTimeout: Math.min(upstream.connectTimeoutMs + upstream.firstByteTimeoutMs, maxHandshakeMs),
  });
}

function addressOf(upstream: Upstream, model: string): URL {
  const url = socketAddress(upstream, dialect.path);
  url.searchParams.set("model", model);
  return url;
}

async function readRefusal(response: IncomingMessage): Promise<unknown> {
  let text = "";
  const timer = setTimeout(() => response.destroy(), errorTimeoutMs);
  try {
    for await (const piece of response) {
      text += (piece as Buffer).toString();
      if (text.length > maxErrorBytes) break;
    }
  } catch {
    // A part of an error is none.
  } finally {
    clearTimeout(timer);
  }
  response.destroy();
  return eventJson(text);
}

type Taken = Pick<UpstreamSocket, "webSocket" | "connection">;
type Refused = { failure: Failure; isFinal: boolean };

async function ask(route: Route, place: Place, asked: Asked, relay: Relay): Promise<Taken | Refused> {
  const { upstream, model } = route;
  const attempt: Attempt = { rid: asked.rid, place };
  // A proxy of plain HTTP would see the credential.
  if (isSeenByProxy(upstream)) {
    return { failure: { name: "upstream_unavailable", cause: "a proxy needs https" }, isFinal: false };
  }
  const webSocket = new WebSocket(addressOf(upstream, model), optionsOf(upstream, asked));
  const refused = Promise.withResolvers<IncomingMessage>();
  let connection: Duplex | undefined;
  webSocket.once("upgrade", ({ socket }) => (connection = socket));
  webSocket.once("unexpected-response", (_request, response) => refused.resolve(response));
  // At once: its first event may have come with its yes, and nobody listens yet.
  webSocket.once("open", () => webSocket.pause());
  const opened = once(webSocket, "open").then(() => undefined);
  let response: IncomingMessage | undefined;
  try {
    response = await Promise.race([opened, refused.promise]);
  } catch (thrown) {
    const error = new SendError(thrown as Error, true);
    learn(relay, attempt, "not_sent", "down");
    countFault(relay.metrics, upstream.name, faultOfError(error));
    return { failure: { name: error.failureName, cause: thrown }, isFinal: false };
  }
  webSocket.on("error", () => undefined);
  if (!response) {
    learn(relay, attempt, "answered", "up");
    return { webSocket, connection: connection as unknown as Duplex };
  }
  opened.catch(() => undefined);
  const status = response.statusCode ?? 0;
  const failure = upstreamFailure(status, await readRefusal(response), dialect, upstream);
  webSocket.terminate();
  countFault(relay.metrics, upstream.name, faultOfStatus(status));
  learnFromError(relay, attempt, { status, headers: response.headers }, failure.name);
  return { failure, isFinal: !isFailover(status, failure) };
}

/**
 * Connects to the first of these upstreams that takes the session; the place there must be given back when the session
 * is over. Throws the CallFailure of the last that was asked.
 */
export async function connectUpstream(routes: readonly Route[], asked: Asked, relay: Relay): Promise<UpstreamSocket> {
  const met: Obstacle[] = [];
  let told: Failure | undefined;
  for (const route of routes) {
    if (asked.isGone()) break;
    const place = relay.health.enter(route, performance.now(), asked.accountId);
    if (typeof place === "string") {
      met.push(place);
      relay.metrics.upstreamSkips.inc({ upstream: route.upstream.name, reason: place });
      continue;
    }
    const answer = await ask(route, place, asked, relay);
    if ("webSocket" in answer) return { ...answer, route, place };
    relay.health.leave(place);
    told = answer.failure;
    if (answer.isFinal) break;
  }
  if (told) throw new CallFailure(told);
  const nearest = obstacles.find((obstacle) => met.includes(obstacle)) ?? "unavailable";
  throw new CallFailure({ name: failuresOfObstacles[nearest], cause: "no upstream takes a session now" });
}
