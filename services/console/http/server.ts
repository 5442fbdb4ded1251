import cookie from "@fastify/cookie";
import csrf from "@fastify/csrf-protection";
import formbody from "@fastify/formbody";
import helmet from "@fastify/helmet";
import rateLimit from "@fastify/rate-limit";
import statics from "@fastify/static";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { followConnections } from "#shared/process/connections.ts";
import { serveInTurn } from "#shared/process/in-turn.ts";
import { createForm } from "../html/form.ts";
import { admit } from "./guard.ts";
import { html } from "../html/html.ts";
import type { Deps } from "../deps.ts";
import { addWebhook } from "../top-ups/webhook.ts";
import { Problem } from "../html/problem.ts";
import { assets } from "../html/assets.ts";
import type { PageRequest, Route, Visitor } from "../html/route.ts";
import { send, sendProblem, type Site } from "./send-response.ts";
import { reachable } from "../store/availability.ts";
import { traceRequests } from "./trace-requests.ts";
import { cookiesFor, findVisitor } from "./visitor.ts";

declare module "fastify" {
  interface FastifyRequest {
    visitor: Visitor | undefined;
  }
}

export type ServerSettings = {
  allowPlainHttp: "never" | "loopback";
  proxies: string;
  guessesPerMinute: number;
  /** Share of requests that are traced, from 0 to 1. */
  traceShare: number;
};

const bodyBytes = 65_536;
const browserLength = 200;
const addressesKept = 50_000;

/** The pages over HTTP. */
export async function buildServer(deps: Deps, routes: Route[], settings: ServerSettings): Promise<FastifyInstance> {
  const proxies = settings.proxies.split(",").map((proxy) => proxy.trim());
  const trusted = proxies.filter((proxy) => proxy !== "");
  const site: Site = { deps, cookies: cookiesFor(deps.publicUrl) };
  const app = Fastify({
    logger: false,
    trustProxy: trusted.length > 0 ? trusted : false,
    bodyLimit: bodyBytes,
    requestTimeout: 30_000,
    keepAliveTimeout: 75_000,
    forceCloseConnections: "idle",
    // Requests that still come in while it stops are served.
    return503OnClosing: false,
    http: { maxHeaderSize: 32_768, headersTimeout: 15_000 },
    // Percent signs that encode nothing, and paths that are too long: such a page is like any other that is unknown.
    // No plugin has seen it.
    frameworkErrors: (_error, _request, reply) => {
      void reply.header("content-security-policy", "default-src 'none'; style-src 'self'");
      void sendProblem(site, reply, new Problem("not-found"));
    },
  });
  app.decorateRequest("visitor", undefined);
  app.addHook("onRequest", async (request) => {
    if (!isSecure(request, settings.allowPlainHttp)) throw new Problem("needs-https");
  });
  traceRequests(app, settings.traceShare);
  watch(app, deps);
  serveInTurn(app);
  app.decorate("connections", followConnections(app.server));
  await addPlugins(app, site);
  const guessing = { max: settings.guessesPerMinute, timeWindow: 60_000, cache: addressesKept };
  const guesses = app.createRateLimit(guessing);
  const countGuess = async (request: FastifyRequest): Promise<void> => {
    const counted = await guesses(request);
    if (!counted.isAllowed && counted.isExceeded) throw new Problem("too-many");
  };
  for (const route of routes) addRoute(app, route, site, countGuess);
  app.setNotFoundHandler((_request, reply) => sendProblem(site, reply, new Problem("not-found")));
  app.setErrorHandler((error, _request, reply) => sendProblem(site, reply, error));
  // Last: to wait for a plugin fixes the handlers of all routes before it.
  await addWebhook(app, deps);
  return app;
}

const isLoopback = (address: string): boolean =>
  address === "127.0.0.1" || address === "::1" || address === "::ffff:127.0.0.1";

function isSecure(request: FastifyRequest, allowPlainHttp: ServerSettings["allowPlainHttp"]): boolean {
  if (request.protocol === "https") return true;
  const { headers, raw } = request;
  const hasForwarded = headers["x-forwarded-for"] !== undefined || headers["x-forwarded-proto"] !== undefined;
  return allowPlainHttp === "loopback" && !hasForwarded && isLoopback(raw.socket.remoteAddress ?? "");
}

function watch(app: FastifyInstance, { log, metrics }: Deps): void {
  app.addHook("onResponse", async (request, reply) => {
    // The pattern, not the path: that may hold the token of an invitation.
    const path = request.routeOptions.url ?? "none";
    const { method, ip } = request;
    const { statusCode, elapsedTime } = reply;
    const status = String(statusCode);
    metrics.requests.observe({ method, path, status }, elapsedTime / 1_000);
    const { personId } = request.visitor?.person ?? {};
    log.info({ method, path, status, ms: Math.round(elapsedTime), ip, personId }, "request");
  });
}

async function addPlugins(app: FastifyInstance, { deps, cookies }: Site): Promise<void> {
  const isHttps = deps.publicUrl.protocol === "https:";
  const self = ["'self'"];
  const none = ["'none'"];
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: none,
        styleSrc: self,
        imgSrc: self,
        // Browsers hold a form's redirects to this, too: paying begins with one to the provider's page.
        formAction: [...self, ...(deps.payments?.pageOrigins ?? [])],
        baseUri: none,
        frameAncestors: none,
        scriptSrc: self,
        connectSrc: self,
        ...(isHttps && { upgradeInsecureRequests: [] }),
      },
    },
    // Browsers leave Origin out of forms under no-referrer; the path stays within the console.
    referrerPolicy: { policy: "same-origin" },
    xFrameOptions: { action: "deny" },
  });
  await app.register(statics, {
    root: assets.folders,
    allowedPath: assets.isServed,
    prefix: assets.prefix,
    index: false,
    immutable: true,
    maxAge: "1y",
  });
  await app.register(cookie);
  // Only forms come in; without this JSON and plain text would be read, too.
  app.removeAllContentTypeParsers();
  await app.register(formbody, { bodyLimit: bodyBytes });
  await app.register(csrf, {
    cookieKey: cookies.csrfName,
    cookieOpts: cookies.options,
    getToken: (request) => createForm(request.body).exact("csrf"),
    // A form belongs to the session for which it was made: one from before a sign-in is of no use after it.
    getUserInfo: csrfOwner,
    csrfOpts: { hmacKey: deps.box.deriveKey("console csrf").toString("base64") },
  });
  await app.register(rateLimit, { global: false });
}

const csrfOwner = (request: FastifyRequest): string => request.visitor?.session.sessionId ?? "nobody";

type CountGuess = (request: FastifyRequest) => Promise<void>;

/** `countGuess` is one budget for all routes that take a secret: the plugin's own, per route, would add up. */
function addRoute(app: FastifyInstance, route: Route, site: Site, countGuess: CountGuess): void {
  const { deps, cookies } = site;
  const checkToken: typeof app.csrfProtection = (request, reply, done) => app.csrfProtection(request, reply, done);
  app.route({
    method: route.method,
    url: route.url,
    bodyLimit: route.bodyBytes ?? bodyBytes,
    onRequest: route.isGuessable ? [countGuess] : [],
    preHandler: [
      async (request, reply) => {
        request.visitor = await reachable(findVisitor(deps.pool, cookies, request, reply));
      },
      ...(route.method === "POST" ? [refuseOtherSites, checkToken] : []),
    ],
    handler: async (request, reply) => {
      const pageRequest = pageRequestOf(request, { reply, route, csrfName: cookies.csrfName });
      const admitted = await reachable(admit(deps, route, pageRequest));
      if ("instead" in admitted) return send(site, { reply, pageRequest, response: admitted.instead });
      const response = await reachable(route.handle(admitted.pageRequest));
      return send(site, { reply, pageRequest: admitted.pageRequest, response });
    },
  });
}

/** Browsers say so when another site has sent the form; the token alone would do, too. */
async function refuseOtherSites({ headers }: FastifyRequest): Promise<void> {
  const from = headers["sec-fetch-site"];
  if (from === "cross-site" || from === "same-site") throw new Problem("stale-form");
}

function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  // It may be over already: who asks was looked up before.
  if (raw.destroyed) gone.abort();
  else raw.once("close", () => gone.abort());
  return gone.signal;
}

type RequestContext = { reply: FastifyReply; route: Route; csrfName: string };

function pageRequestOf(request: FastifyRequest, { reply, route, csrfName }: RequestContext): PageRequest {
  const query = createForm(request.query);
  return {
    url: route.url,
    path: request.url.split("?")[0] ?? "",
    parameters: request.params as Record<string, string>,
    query: query.typed,
    form: createForm(request.body),
    address: request.ip,
    browser: (request.headers["user-agent"] ?? "").slice(0, browserLength),
    gone: goneSignal(reply),
    visitor: request.visitor,
    browserSecret: request.cookies[csrfName] ?? "",
    csrfField: html`<input
      type="hidden"
      name="csrf"
      value="${reply.generateCsrf({ userInfo: csrfOwner(request) })}"
    />`,
  };
}
