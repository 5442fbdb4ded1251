import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { createRid } from "#shared/rid.ts";
import { authorize, callerOf } from "./admit.ts";
import { handleCall, type Relay } from "./call.ts";
import type { Config } from "./config.ts";
import type { Dialect } from "./dialects/dialect.ts";
import { dialects } from "./dialects/index.ts";
import { CallFailure, type Failure } from "./failures.ts";
import { readKey } from "./read.ts";
import { requestIdHeaders, respondFailure } from "./respond.ts";
import { listFormatA, listFormatB, wantsFormatB } from "./routes/models.ts";

const chat = dialects["openai-chat"];
const messages = dialects["anthropic-messages"];

const requestLimits = {
  /** A 128 MB body at 1 MB/s takes 128 s. */
  requestTimeoutMs: 300_000,
  headersTimeoutMs: 30_000,
  /** Longer than load balancers keep idle connections, so that the relay is never the one to close a reused one. */
  keepAliveMs: 75_000,
};

const isLoopback = (address: string): boolean =>
  address === "127.0.0.1" || address === "::1" || address === "::ffff:127.0.0.1";

/** API spec, Authentication rule 3: only HTTPS, served here or by a trusted proxy in front. */
function isSecure(request: FastifyRequest, config: Config): boolean {
  if (request.protocol === "https") return true;
  const hasForwarded =
    request.headers["x-forwarded-for"] !== undefined || request.headers["x-forwarded-proto"] !== undefined;
  return config.ALLOW_PLAIN_HTTP === "loopback" && !hasForwarded && isLoopback(request.raw.socket.remoteAddress ?? "");
}

function refuse(reply: FastifyReply, failure: Failure, dialect: Dialect): void {
  reply.hijack();
  respondFailure(reply.raw, { rid: createRid(), failure, dialect });
}

const notFoundPage =
  "<!doctype html><html lang=en><title>Not found</title><h1>Not found</h1><p>The API is under /v1.</p></html>\n";

/**
 * API spec, Authentication rules 4 and 5: a page where the path has no /v1, a JSON error for any other unknown path.
 */
function answerUnknownPath(request: FastifyRequest, reply: FastifyReply): void {
  const path = request.url.split("?", 1)[0] ?? "";
  if (path === "/v1" || path.startsWith("/v1/")) {
    return refuse(
      reply,
      { name: "invalid_url", detail: `${request.method} ${path}` },
      path.startsWith("/v1/messages") ? messages : chat,
    );
  }
  reply.hijack();
  const headers = { "content-type": "text/html; charset=utf-8", ...requestIdHeaders(createRid()) };
  reply.raw.writeHead(404, headers).end(notFoundPage);
}

async function answerModels(request: FastifyRequest, reply: FastifyReply, relay: Relay): Promise<void> {
  reply.hijack();
  const rid = createRid();
  const isFormatB = wantsFormatB(request.headers);
  try {
    const caller = callerOf(readKey(request.headers, isFormatB), request.ip);
    const { models: allowed } = await authorize(relay.settling.quota, caller);
    const models = [...relay.catalog.current().models.values()];
    const offered = allowed.length === 0 ? models : models.filter(({ id }) => allowed.includes(id));
    const body = JSON.stringify(isFormatB ? listFormatB(offered) : listFormatA(offered));
    reply.raw.writeHead(200, { "content-type": "application/json", ...requestIdHeaders(rid) }).end(body);
  } catch (thrown) {
    const isKnown = thrown instanceof CallFailure;
    if (!isKnown) relay.log.error({ rid, err: thrown }, "model list failed");
    const failure: Failure = isKnown ? thrown.failure : { name: "service_unavailable" };
    respondFailure(reply.raw, { rid, failure, dialect: isFormatB ? messages : chat });
  }
}

/** Builds the public HTTP server around the path of a call. */
export function buildApp(config: Config, relay: Relay): FastifyInstance {
  const proxies = config.TRUSTED_PROXIES.split(",")
    .map((proxy) => proxy.trim())
    .filter((proxy) => proxy !== "");
  const app = Fastify({
    logger: false,
    trustProxy: proxies.length > 0 ? proxies : false,
    requestTimeout: requestLimits.requestTimeoutMs,
    keepAliveTimeout: requestLimits.keepAliveMs,
    http: { headersTimeout: requestLimits.headersTimeoutMs, maxHeaderSize: 32_768 },
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    // Calls that still come in while draining are served.
    return503OnClosing: false,
  });
  // Bodies are read by the call itself, after the key where they are large; nothing here may parse them.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.addHook("onRequest", (request, reply, done) => {
    // Callers on connections that are kept open go elsewhere for their next call.
    if (relay.isDraining) reply.raw.shouldKeepAlive = false;
    if (isSecure(request, config)) return done();
    refuse(reply, { name: "not_processable" }, request.url.startsWith("/v1/messages") ? messages : chat);
  });
  for (const dialect of Object.values(dialects)) {
    app.post(dialect.path, (request, reply) => {
      reply.hijack();
      void handleCall({ request: request.raw, response: reply.raw, ip: request.ip, dialect }, relay);
    });
  }
  app.get("/v1/models", (request, reply) => void answerModels(request, reply, relay));
  app.setNotFoundHandler((request, reply) => answerUnknownPath(request, reply));
  app.setErrorHandler((error, request, reply) => {
    relay.log.warn({ err: error, url: request.url }, "request refused before the call");
    refuse(reply, { name: "not_processable" }, chat);
  });
  return app;
}
