import type { Server } from "node:http";
import type { FastifyHttpOptions, FastifyInstance } from "fastify";
import { followConnections } from "#shared/process/connections.ts";
import { serveInTurn } from "#shared/process/in-turn.ts";
import { answerClientError, answerConnect, maxHeaderFields, type Refused } from "./malformed.ts";
import { isSocketRequest, routeUpgrades } from "./upgrade.ts";
import type { LiveCertificate, SecureServer } from "./tls.ts";

export const defaultServerLimits = {
  /** A 128 MB body at 1 MB/s takes 128 s. */
  requestTimeoutMs: 300_000,
  headersTimeoutMs: 30_000,
  /** How often the two above are looked after. */
  checkEveryMs: 5_000,
  /** Longer than load balancers keep idle connections, so that the relay is never the one to close a reused one. */
  keepAliveMs: 75_000,
  /** Of a request's head, its target among them. */
  headBytes: 32_768,
  tlsHandshakeMs: 10_000,
};

export type ServerSettings = { certificate?: LiveCertificate | undefined; limits?: typeof defaultServerLimits };

/** Fastify's options for a server of HTTP/1.1, over TLS where there is a certificate. */
export function serverOptions(
  { certificate, limits = defaultServerLimits }: ServerSettings,
  refused: Refused,
): FastifyHttpOptions<Server> {
  const http = {
    headersTimeout: limits.headersTimeoutMs,
    connectionsCheckingInterval: limits.checkEveryMs,
    maxHeaderSize: limits.headBytes,
    // Node's own refusal has no body; checkHead is there instead.
    requireHostHeader: false,
    shouldUpgradeCallback: isSocketRequest,
  };
  const both: FastifyHttpOptions<Server> = {
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    forceCloseConnections: "idle",
    // Calls that still come in while draining are served.
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => answerClientError(error, socket, refused),
  };
  if (!certificate) return { ...both, http };
  const https = { ...http, ...certificate.current(), handshakeTimeout: limits.tlsHandshakeMs };
  // Fastify's types tell two kinds of servers apart; all that is done with this one, both can do.
  return { ...both, https } as FastifyHttpOptions<Server>;
}

/** Takes what Node's HTTP server would answer by itself, or not at all. */
export function listenBeside(app: FastifyInstance, { certificate }: ServerSettings, refused: Refused): void {
  const { server } = app;
  // One more than are taken: Node drops what is above it without a word.
  server.maxHeadersCount = maxHeaderFields + 1;
  server.on("connect", (request, socket) => answerConnect(request, socket, refused));
  // The body is asked for once it is wanted, so that a refused caller need not send it; any other expectation is
  // refused with the head.
  serveInTurn(app, ["request", "checkContinue", "checkExpectation"]);
  app.decorate("connections", followConnections(server));
  routeUpgrades(app);
  certificate?.serve(server as unknown as SecureServer);
}
