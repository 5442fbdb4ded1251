import type { IncomingMessage, ServerResponse } from "node:http";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { createRid } from "#shared/money/rid.ts";
import type { Caller } from "./charge/admit.ts";
import { closedFor, handleCall, type Relay } from "./call.ts";
import { callOutcomeOf, type CallOutcome } from "./report/call-outcome.ts";
import type { Config } from "./config.ts";
import { httpDialects } from "./dialects/index.ts";
import type { Failure } from "./failures.ts";
import { limitConnections, proxyMatcher } from "./http/connection-limit.ts";
import { problemOfHead, type Refused } from "./http/malformed.ts";
import { errorsOfPath, failureOfPath, isOfApi, notFoundPage, pathOf } from "./http/paths.ts";
import { requestIdHeaders, respondFailure } from "./http/respond.ts";
import { noteRefusal } from "./report/refusals.ts";
import { answerModels } from "./routes/answer-models.ts";
import { answerVideos } from "./routes/videos.ts";
import { serveDirect } from "./http/direct/serve-direct.ts";
import { defaultServerLimits, listenBeside, serverOptions, type ServerSettings } from "./http/server.ts";
import { clientSecretsPath, realtimePath, socketPath, videosPath } from "./http/paths.ts";
import { headOfUpgrade } from "./http/upgrade.ts";
import { answerClientSecret } from "./sockets/realtime/answer-client-secret.ts";
import { createSockets, defaultSocketLimits, type Sockets, type SocketsLimits } from "./sockets/sockets.ts";

const isLoopback = (address: string): boolean =>
  address === "127.0.0.1" || address === "::1" || address === "::ffff:127.0.0.1";

/** API spec, Authentication rule 3: only HTTPS, served here or by a trusted proxy in front. */
function isSecure(request: FastifyRequest, config: Config): boolean {
  if (request.protocol === "https") return true;
  const hasForwarded =
    request.headers["x-forwarded-for"] !== undefined || request.headers["x-forwarded-proto"] !== undefined;
  return config.ALLOW_PLAIN_HTTP === "loopback" && !hasForwarded && isLoopback(request.raw.socket.remoteAddress ?? "");
}

/** Why a request is refused whatever it asks for; undefined when it may go on. */
function refusalOf(request: FastifyRequest, config: Config, relay: Relay): Failure | undefined {
  const problem = problemOfHead(request.raw);
  if (problem !== undefined) return { name: "malformed_request", cause: problem };
  if (!isSecure(request, config)) return { name: "not_processable", cause: "plain HTTP" };
  return isOfApi(pathOf(request.url)) ? closedFor(relay) : undefined;
}

type HttpExchange = { request: IncomingMessage; response: ServerResponse; ip: string };

/** Fastify lets go of the request: from here on it is answered with Node's own means. */
function takeOver(request: FastifyRequest, reply: FastifyReply): HttpExchange {
  reply.hijack();
  return { request: request.raw, response: reply.raw, ip: request.ip };
}

/** Counts and logs a request that was answered before, or without, a call. */
function report(
  { metrics, log }: Relay,
  status: number,
  fields: Parameters<Refused>[0],
  outcome: CallOutcome = "client_error",
): void {
  metrics.calls.inc({ endpoint: "none", status: String(status), end: "refused", outcome });
  log.info({ ...fields, status }, "request refused");
}

function refuse({ request, response, ip }: HttpExchange, failure: Failure, relay: Relay, caller?: Caller): void {
  const rid = createRid();
  const endpoint = pathOf(request.url ?? "/");
  respondFailure(response, { rid, failure, dialect: errorsOfPath(endpoint) });
  const { statusCode: status } = response;
  const outcome = callOutcomeOf({ failure, end: "refused", status });
  report(relay, status, { rid, ip, failure: failure.name, cause: failure.cause }, outcome);
  noteRefusal(relay.refusals, caller, { rid, failure, status, endpoint });
}

/** API spec, Authentication rules 4 and 5: a page where the path has no /v1, a JSON error for any other. */
function answerUnknownPath(answering: HttpExchange, relay: Relay): void {
  const { request, response, ip } = answering;
  const failure = failureOfPath(request.method ?? "", pathOf(request.url ?? "/"));
  if (failure) return refuse(answering, failure, relay);
  const rid = createRid();
  const headers = { "content-type": "text/html; charset=utf-8", "content-length": notFoundPage.length };
  response.writeHead(404, { ...headers, ...requestIdHeaders(rid) }).end(notFoundPage);
  report(relay, 404, { rid, ip, failure: "no path of the API" });
}

const unreachable = (): never => {
  throw new Error("a request came past the hook that answers it");
};

/**
 * The endpoints. They answer in hooks, before Fastify looks at the body: a call reads it itself, after the key where it
 * is large, and takes any content type, malformed ones too.
 */
function addRoutes(app: FastifyInstance, relay: Relay): void {
  for (const dialect of httpDialects) {
    const onRequest = (request: FastifyRequest, reply: FastifyReply): void =>
      void handleCall({ ...takeOver(request, reply), dialect }, relay);
    app.post(dialect.path, { onRequest }, unreachable);
  }
  const onRequest = (request: FastifyRequest, reply: FastifyReply): void => {
    const answering = takeOver(request, reply);
    const { "*": id } = request.params as { "*"?: string };
    if (id === "") answerUnknownPath(answering, relay);
    else void answerModels(answering, id, relay);
  };
  app.get("/v1/models", { onRequest }, unreachable);
  app.get("/v1/models/*", { onRequest }, unreachable);
  addVideoRoutes(app, relay);
}

/** Responses, and sessions, over a WebSocket. Without its handshake a path is like any other that is unknown. */
function addSocketRoutes(app: FastifyInstance, relay: Relay, sockets: Sockets): void {
  const onRequest = (request: FastifyRequest, reply: FastifyReply): void => {
    const answering = takeOver(request, reply);
    const head = headOfUpgrade(request.raw);
    if (!head) return answerUnknownPath(answering, relay);
    void sockets.open({ ...answering, head }).then((refused) => {
      if (refused) refuse(answering, refused.failure, relay, refused.caller);
    });
  };
  app.get(socketPath, { onRequest }, unreachable);
  app.get(realtimePath, { onRequest }, unreachable);
  const onSecret = (request: FastifyRequest, reply: FastifyReply): void =>
    void answerClientSecret(takeOver(request, reply), relay);
  app.post(clientSecretsPath, { onRequest: onSecret }, unreachable);
}

/** Videos find their endpoint themselves: what is below their path has ids of any form in it. */
function addVideoRoutes(app: FastifyInstance, relay: Relay): void {
  const onRequest = (request: FastifyRequest, reply: FastifyReply): void => {
    const answering = takeOver(request, reply);
    if (!answerVideos(answering, pathOf(request.url), relay)) answerUnknownPath(answering, relay);
  };
  app.post(videosPath, { onRequest }, unreachable);
  app.get(videosPath, { onRequest }, unreachable);
  app.get(`${videosPath}/*`, { onRequest }, unreachable);
  app.delete(`${videosPath}/*`, { onRequest }, unreachable);
}

// One that knocks all the time must not fill the log.
const refusalLineMs = 10_000;

function connectionRefusals({ metrics, log }: Relay): (ip: string) => void {
  let toldAt = -Infinity;
  return (ip) => {
    metrics.connectionRefusals.inc();
    const now = performance.now();
    if (now - toldAt < refusalLineMs) return;
    toldAt = now;
    log.warn({ ip }, "too many connections of an address");
  };
}

export type AppSettings = ServerSettings & { socketLimits?: Partial<SocketsLimits> };

/** Builds the public HTTP server around the path of a call. */
export function buildApp(config: Config, relay: Relay, settings: AppSettings = {}): FastifyInstance {
  const proxies = config.TRUSTED_PROXIES.split(",")
    .map((proxy) => proxy.trim())
    .filter((proxy) => proxy !== "");
  const refused: Refused = (fields) => report(relay, 400, fields);
  const app = Fastify({
    ...serverOptions(settings, refused),
    logger: false,
    trustProxy: proxies.length > 0 ? proxies : false,
    exposeHeadRoutes: false,
    // Percent signs that encode nothing: such a path is like any other that is unknown.
    frameworkErrors: (_error, request, reply) => {
      const answering = takeOver(request, reply);
      const failure = refusalOf(request, config, relay);
      if (failure) refuse(answering, failure, relay);
      else answerUnknownPath(answering, relay);
    },
  });
  app.addHook("onRequest", (request, reply, done) => {
    const failure = refusalOf(request, config, relay);
    if (failure) return refuse(takeOver(request, reply), failure, relay);
    if (request.is404) return answerUnknownPath(takeOver(request, reply), relay);
    done();
  });
  addRoutes(app, relay);
  const sockets = createSockets(relay, {
    ...defaultSocketLimits,
    maxSockets: config.MAX_SOCKETS,
    maxPerAccount: config.MAX_SOCKETS_PER_ACCOUNT,
    maxKeptBytes: config.MAX_SOCKET_BYTES,
    idleMs: config.SOCKET_IDLE_MS,
    ...settings.socketLimits,
  });
  app.decorate("sockets", sockets);
  app.addHook("onClose", async () => sockets[Symbol.dispose]());
  addSocketRoutes(app, relay, sockets);
  app.setErrorHandler((error, request, reply) => {
    relay.log.error({ err: error, url: request.url }, "request failed before the call");
    refuse(takeOver(request, reply), { name: "service_unavailable" }, relay);
  });
  if (config.DIRECT_HTTP === "on") {
    const { keepAliveMs } = settings.limits ?? defaultServerLimits;
    serveDirect(app.server, { paths: new Set(httpDialects.map(({ path }) => path)), keepAliveMs });
  }
  listenBeside(app, settings, refused);
  limitConnections(app.server, {
    most: config.MAX_CONNECTIONS_PER_ADDRESS,
    isProxy: proxyMatcher(proxies),
    onRefused: connectionRefusals(relay),
  });
  return app;
}
