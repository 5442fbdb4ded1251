import type { IncomingMessage, ServerResponse } from "node:http";
import { type Plan, randomId, type StreamReply, type WholeReply } from "./answer.ts";
import { type Behaviour, readBehaviour } from "./behaviour.ts";
import {
  ConnectionGoneError,
  deliverStream,
  deliverWhole,
  type Delivery,
  type Ending,
  pause,
  strikeBeforeHead,
} from "./delivery.ts";
import { type FakeDialect, fakePaths, geminiEndpoint } from "./dialect.ts";
import { renderError, renderHtml } from "./errors.ts";
import { findGeminiRefusal, readGeminiRequest } from "./gemini-request.ts";
import { providerHeaders, renderModels } from "./heads.ts";
import { planners } from "./plans.ts";
import { type ReceivedRequest, receive } from "./receive.ts";
import { type FakeRequest, findRefusal, readRequest } from "./request.ts";
import type { Truth, TruthLog } from "./truth.ts";

/** A behaviour, or what decides on it for a request. */
export type BehaviourSource = Behaviour | ((request: FakeRequest) => Behaviour);

/** The state of a fake upstream. */
export type Fake = {
  received: ReceivedRequest[];
  receivedLimit: number;
  truthLog: TruthLog;
  standing: BehaviourSource;
  next: Behaviour[];
  models: string[];
};

const dialectsByPath = new Map(
  Object.entries(fakePaths).map(([dialect, path]) => [path, dialect as FakeDialect] as const),
);

/** Serves one request: records it, decides on a behaviour, answers by it. */
export async function serveFake(fake: Fake, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? "").split("?", 1)[0] ?? "";
  // Asked by whoever starts this as a process; no request to a provider.
  if (path === "/readyz") return void response.end("ok\n");
  await serveRequest(fake, await receive(request), response);
}

/** The same for a request that came whole, or on a socket. */
export async function serveRequest(fake: Fake, received: ReceivedRequest, response: ServerResponse): Promise<void> {
  const path = received.path.split("?", 1)[0] ?? "";
  fake.received.push(received);
  if (fake.received.length > fake.receivedLimit) fake.received.shift();

  const asked: FakeDialect = received.headers["anthropic-version"] ? "messages" : "chat";
  const gemini = geminiEndpoint(received.path);
  const dialect = gemini ? "gemini" : (dialectsByPath.get(path) ?? asked);
  const reply = { response, dialect, requestId: randomId("req_", 24) };
  if (received.method === "GET" && path === "/v1/models") {
    return sendJson(reply, 200, renderModels(dialect, fake.models));
  }
  if (received.method !== "POST" || !(gemini || dialectsByPath.has(path))) {
    return refuse(reply, { status: 404, message: `Invalid URL (${received.method} ${path})` });
  }
  const refusal = gemini
    ? findGeminiRefusal(received.headers, received.body, gemini)
    : findRefusal(dialect, received.headers, received.body);
  if (refusal || !received.body) return refuse(reply, refusal ?? { status: 400 });
  const asks = gemini ? readGeminiRequest(gemini, received.body) : readRequest(dialect, received.body);
  await answer(fake, received, { ...reply, request: asks });
}

type Reply = { response: ServerResponse; dialect: FakeDialect; requestId: string };
type RequestReply = Reply & { request: FakeRequest };

async function answer(fake: Fake, received: ReceivedRequest, reply: RequestReply): Promise<void> {
  const { request, response } = reply;
  const behaviour = decideBehaviour(fake, reply);
  if (!behaviour) return;
  const plan = planners[request.dialect](request, behaviour, reply.requestId);
  const truth = fake.truthLog.open({
    rid: received.headers["x-request-id"]?.toString() ?? null,
    dialect: request.dialect,
    model: request.model,
    isStream: request.isStream,
    behaviour,
    promptTokens: request.promptTokens,
    tokensPlanned: plan.tokens,
    tokensEmitted: 0,
    claim: plan.claim ?? null,
    isClaimEmitted: false,
    status: null,
  });
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const acceptsGzip = String(received.headers["accept-encoding"]).includes("gzip");
  const delivery: Delivery = {
    response,
    behaviour,
    isGzip: behaviour.isGzipUnasked ?? (acceptsGzip && (behaviour.isGzip ?? false)),
    gone: gone.signal,
  };
  try {
    fake.truthLog.end(truth, await deliver(delivery, reply, { plan, truth }));
  } catch (error) {
    if (!(error instanceof ConnectionGoneError)) throw error;
    fake.truthLog.end(truth, "client-gone");
  }
}

function decideBehaviour(fake: Fake, reply: RequestReply): Behaviour | undefined {
  const { request } = reply;
  const standing = typeof fake.standing === "function" ? fake.standing(request) : fake.standing;
  const next = fake.next.shift();
  try {
    return { ...standing, ...next, ...readBehaviour(request.lastUserText) };
  } catch (error) {
    refuse(reply, { status: 500, message: `the fake upstream cannot behave like that: ${String(error)}` });
    return undefined;
  }
}

type PlannedReply = { plan: Plan; truth: Truth };

async function deliver(delivery: Delivery, reply: RequestReply, planned: PlannedReply): Promise<Ending | "refused"> {
  const { behaviour } = delivery;
  await pause(delivery, behaviour.headersAfterMs);
  if (await strikeBeforeHead(delivery)) return "cut";
  planned.truth.status = behaviour.status ?? 200;
  if (behaviour.status !== undefined && !behaviour.isHtml) return deliverError(delivery, reply, behaviour.status);
  if (behaviour.isHtml) return deliverHtml(delivery);
  const content = planned.plan.render();
  return "frames" in content
    ? deliverFrames(delivery, reply, { ...planned, content })
    : deliverBody(delivery, reply, { ...planned, content });
}

async function deliverError(delivery: Delivery, reply: Reply, status: number): Promise<"refused"> {
  const { behaviour, response } = delivery;
  const retryAfterSeconds = behaviour.retryAfterSeconds ?? (status === 429 ? 7 : undefined);
  setHead(delivery, reply, { status, type: "application/json" });
  if (retryAfterSeconds !== undefined) response.setHeader("retry-after", retryAfterSeconds);
  await deliverWhole(
    delivery,
    renderError(reply.dialect, { status, override: behaviour.error, requestId: reply.requestId }),
  );
  return "refused";
}

async function deliverHtml(delivery: Delivery): Promise<"refused"> {
  const { response, behaviour } = delivery;
  response.statusCode = behaviour.status ?? 200;
  response.setHeader("content-type", "text/html");
  await deliverWhole(delivery, renderHtml(response.statusCode));
  return "refused";
}

async function deliverBody(
  delivery: Delivery,
  reply: Reply,
  { plan, truth, content }: PlannedReply & { content: WholeReply },
): Promise<Ending> {
  setHead(delivery, reply, { status: 200, type: content.type });
  const ending = await deliverWhole(delivery, content.body);
  if (ending === "whole") {
    truth.tokensEmitted = plan.tokens;
    truth.isClaimEmitted = plan.claim !== undefined;
  }
  return ending;
}

function deliverFrames(
  delivery: Delivery,
  reply: Reply,
  { truth, content }: PlannedReply & { content: StreamReply },
): Promise<Ending> {
  setHead(delivery, reply, { status: 200, type: content.type });
  delivery.response.setHeader("cache-control", "no-cache");
  return deliverStream(delivery, {
    ...content,
    onPacket: ({ tokens, hasClaim }) => {
      truth.tokensEmitted += tokens;
      truth.isClaimEmitted ||= hasClaim;
    },
  });
}

function setHead(delivery: Delivery, reply: Reply, { status, type }: { status: number; type: string }): void {
  const { response, behaviour } = delivery;
  response.statusCode = status;
  const encoding = delivery.isGzip ? { "content-encoding": "gzip" } : {};
  const headers = { "content-type": type, ...providerHeaders(reply.dialect, reply.requestId), ...encoding };
  for (const [name, value] of Object.entries({ ...headers, ...behaviour.headers })) response.setHeader(name, value);
}

type RefusedReply = { status: number; message?: string; param?: string; code?: string };

function refuse(reply: Reply, { status, message, param, code }: RefusedReply): void {
  const override = { code: code ?? null, param: param ?? null, ...(message !== undefined && { message }) };
  sendJson(reply, status, renderError(reply.dialect, { status, override, requestId: reply.requestId }));
}

function sendJson({ response, dialect, requestId }: Reply, status: number, body: string): void {
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...providerHeaders(dialect, requestId),
  });
  response.end(body);
}
