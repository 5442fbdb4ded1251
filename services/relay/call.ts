import type { IncomingMessage, ServerResponse } from "node:http";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Logger } from "#shared/log.ts";
import { createRid } from "#shared/rid.ts";
import { authorize, callerOf, reserve, type Caller } from "./admit.ts";
import { readBody } from "./body.ts";
import type { BodyBudget } from "./body-budget.ts";
import type { LiveCatalog } from "./catalog.ts";
import { pricedFor, type Model } from "./catalog-models.ts";
import { chooseRoutes, findModel, type Route } from "./choose.ts";
import type { AnswerKind, Dialect, Envelope } from "./dialects/dialect.ts";
import { eventJson } from "./dialects/sse.ts";
import { CallFailure, type Failure, type FailureName } from "./failures.ts";
import { guardStream } from "./guard.ts";
import { beginLiveCall, type LiveCall } from "./live-call.ts";
import { countInputTokens } from "./meter.ts";
import type { Metrics } from "./metrics.ts";
import { pumpStream } from "./pump.ts";
import { reachUpstream, type Answered } from "./reach.ts";
import { readEnvelope, readKey } from "./read.ts";
import { respondFailure, respondReply, statusOfFailure, streamHeaders } from "./respond.ts";
import { createSendSignal, SendError, type Answer, type Pools, type SendSignal } from "./send.ts";
import { release, settle, type Settling } from "./settle.ts";
import { cleanerOf, upstreamFailure } from "./upstream-failure.ts";
import type { UpstreamHealth } from "./upstream-health.ts";
import { readWhole } from "./whole.ts";

/** What the path of a call needs of its process. */
export type Relay = {
  catalog: LiveCatalog;
  pools: Pools;
  health: UpstreamHealth;
  bodyBudget: BodyBudget;
  settling: Settling;
  metrics: Metrics;
  log: Logger;
  limits: { maxReplyBytes: number; maxEventBytes: number };
  /** Calls that hold money now. */
  live: Set<LiveCall>;
  isDraining: boolean;
};

/** A request as it came in, its head read. */
export type Incoming = { request: IncomingMessage; response: ServerResponse; ip: string; dialect: Dialect };

type Admission = { call: LiveCall; envelope: Envelope; routes: Route[] };

/**
 * The path of a call: read → admit → choose → send → pump (or answer whole) → settle. Every step that cannot go on
 * throws a CallFailure, which is answered here, once, in the caller's format.
 */
export async function handleCall(incoming: Incoming, relay: Relay): Promise<void> {
  const rid = createRid();
  const startedAtMs = Date.now();
  const signal = createSendSignal();
  incoming.response.once("close", () => {
    if (!incoming.response.writableFinished) signal.abort();
  });
  let call: LiveCall | undefined;
  let failure: Failure | undefined;
  try {
    const admission = await admit(incoming, relay, rid, startedAtMs);
    if (!admission) return;
    call = admission.call;
    relay.live.add(call);
    const { request, dialect } = incoming;
    const answered = await reachUpstream({ ...admission, dialect, callerHeaders: request.headers, signal }, relay);
    await deliver({ ...answered, ...admission, dialect, response: incoming.response }, relay);
  } catch (thrown) {
    failure = failureOf(thrown);
    const { response, dialect } = incoming;
    if (call) call.httpStatus = statusOfFailure(response, failure, dialect);
    failCall(call, failure, signal, relay);
    respondFailure(response, { rid, failure, dialect });
  } finally {
    if (call) relay.live.delete(call);
    report({ rid, startedAtMs, call, failure, incoming }, relay);
  }
}

/** Reads and checks the request and holds its price; undefined when the caller went away while sending. */
async function admit(
  incoming: Incoming,
  relay: Relay,
  rid: string,
  startedAtMs: number,
): Promise<Admission | undefined> {
  const { request, dialect } = incoming;
  const { quota, spool } = relay.settling;
  const caller = callerOf(readKey(request.headers, dialect.format === "B"), incoming.ip);
  const checkKey = async (): Promise<void> => {
    await authorize(quota, { ...caller });
    caller.ip = "";
  };
  const body = await readBody(request, incoming.response, { checkKey, budget: relay.bodyBudget });
  if (!body) return undefined;
  let envelope: Envelope;
  let model: Model;
  let routes: Route[];
  try {
    envelope = readEnvelope(body, dialect, request.headers);
    model = offeredModel(relay, envelope, dialect);
    routes = chooseRoutes(model, dialect.name);
  } catch (refusal) {
    // A wrong key is told before a wrong body.
    if (caller.ip !== "") await checkKey();
    throw refusal;
  }
  const problem = spool.problem();
  if (problem !== undefined) throw new CallFailure({ name: "service_unavailable", cause: problem });
  const call = await hold({ rid, startedAtMs, caller, envelope, model, endpoint: dialect.path }, relay);
  return { call, envelope, routes };
}

/** The model at the prices for this request. Throws `model_unavailable`, also when it is not offered in the dialect. */
function offeredModel({ catalog }: Relay, { model: name, priceFields }: Envelope, dialect: Dialect): Model {
  const model = findModel(catalog.current(), name);
  if (!model.dialects.has(dialect.name)) throw new CallFailure({ name: "model_unavailable", detail: name });
  return pricedFor(model, priceFields);
}

type Holding = {
  rid: string;
  startedAtMs: number;
  caller: Caller;
  envelope: Envelope;
  model: Model;
  endpoint: string;
};

async function hold({ rid, startedAtMs, caller, envelope, model, endpoint }: Holding, relay: Relay): Promise<LiveCall> {
  const askedAt = performance.now();
  const { accountId, keyId, heldNanos } = await reserve(relay.settling.quota, caller, { rid, envelope, model });
  relay.metrics.overheadSeconds.observe({ phase: "reserve" }, (performance.now() - askedAt) / 1_000);
  const requested = { inputTokens: countInputTokens(envelope, model), units: envelope.units };
  return beginLiveCall({
    rid,
    endpoint,
    accountId,
    keyId,
    model,
    isStream: envelope.answer === "events",
    requested,
    heldNanos,
    startedAtMs,
  });
}

const isEncoded = ({ headers }: Answer): boolean => (headers["content-encoding"] ?? "identity") !== "identity";

const contentTypeOf = ({ headers }: Answer): string => String(headers["content-type"] ?? "");

/** Whether the answer is one that passes while it comes. */
function isFlowing(answer: Answer, kind: AnswerKind): boolean {
  if (answer.status !== 200 || isEncoded(answer)) return false;
  if (kind === "bytes") return !contentTypeOf(answer).startsWith("application/json");
  return kind === "events" && contentTypeOf(answer).startsWith("text/event-stream");
}

type Delivery = Answered & { call: LiveCall; envelope: Envelope; dialect: Dialect; response: ServerResponse };

/** Gives the upstream's answer to the caller, and its end to the ledger before that. */
function deliver(delivery: Delivery, relay: Relay): Promise<void> {
  const { answer, envelope } = delivery;
  return isFlowing(answer, envelope.answer) ? deliverFlow(delivery, relay) : deliverWhole(delivery, relay);
}

async function deliverWhole(delivery: Delivery, relay: Relay): Promise<void> {
  const { call, envelope, answer, route, dialect, response } = delivery;
  const body = await readWhole(answer, relay.limits.maxReplyBytes);
  const text = isEncoded(answer) ? "" : body.toString();
  const parsed = envelope.answer === "text" && answer.status === 200 ? text : eventJson(text);
  if (answer.status !== 200) throw new CallFailure(upstreamFailure(answer.status, parsed, dialect, route.upstream));
  const { answer: kind } = envelope;
  const isWhole = kind === "json" || kind === "text" || (kind === "events" && dialect.mayIgnoreStream);
  const tally = isWhole && !isEncoded(answer) ? dialect.readReply(parsed, envelope) : undefined;
  if (!tally) throw new CallFailure({ name: "upstream_invalid", cause: answer.headers });
  call.tally = tally;
  call.httpStatus = 200;
  settle(relay.settling, call, EndCause.COMPLETE);
  const contentType = envelope.answer === "json" ? "application/json" : contentTypeOf(answer);
  respondReply(response, call.rid, dialect.rewriteReply?.(parsed, envelope) ?? body, contentType);
}

function deliverFlow({ call, envelope, answer, route, dialect, response }: Delivery, relay: Relay): Promise<void> {
  call.httpStatus = 200;
  const isOfEvents = envelope.answer === "events";
  const headers = isOfEvents ? streamHeaders(call.rid) : streamHeaders(call.rid, contentTypeOf(answer));
  response.writeHead(200, headers).flushHeaders();
  const { cut, over, beat, stalledMs } = pumpStream({
    answer,
    response,
    tap: dialect.createTap(envelope, cleanerOf(route.upstream)),
    tally: call.tally,
    isOfEvents,
    maxEventBytes: relay.limits.maxEventBytes,
    onEnd: (endCause) => settle(relay.settling, call, endCause),
    onPiece: () => guardStream(relay.settling, call),
  });
  call.cut = cut;
  call.beat = beat;
  call.stalledMs = stalledMs;
  return over;
}

function failureOf(thrown: unknown): Failure {
  if (thrown instanceof CallFailure) return thrown.failure;
  if (thrown instanceof SendError) return { name: thrown.failureName, cause: thrown.cause };
  return { name: "service_unavailable", cause: thrown };
}

const endCauses: Partial<Record<FailureName, EndCause>> = {
  upstream_timeout: EndCause.UPSTREAM_TIMEOUT,
  upstream_unreachable: EndCause.UPSTREAM_CUT,
};

/** Closes the books of a call that failed after its admission: nothing of it was served, so nothing is charged. */
function failCall(call: LiveCall | undefined, failure: Failure, signal: SendSignal, relay: Relay): void {
  if (!call) return;
  if (call.upstream === "") return release(relay.settling, call);
  settle(
    relay.settling,
    call,
    signal.isAborted ? EndCause.CLIENT_GONE : (endCauses[failure.name] ?? EndCause.UPSTREAM_ERROR),
  );
}

const endNames = new Map<EndCause, string>(
  Object.entries(EndCause).map(([name, cause]) => [cause, name.toLowerCase()]),
);

/** One log line and one count per call. */
function report({ rid, startedAtMs, call, failure, incoming }: Report, relay: Relay): void {
  const { dialect, response, ip } = incoming;
  const durationMs = Date.now() - startedAtMs;
  const status = response.headersSent ? response.statusCode : 499;
  const end = call ? (endNames.get(call.endCause) ?? "unknown") : "refused";
  relay.metrics.calls.inc({ endpoint: dialect.path, status, end });
  relay.metrics.callSeconds.observe(
    { endpoint: dialect.path, streamed: String(call?.isStream ?? false) },
    durationMs / 1_000,
  );
  const fields = {
    rid,
    endpoint: dialect.path,
    ip,
    status,
    end,
    durationMs,
    account: call?.accountId,
    key: call?.keyId,
    model: call?.model.id,
    upstream: call?.upstream,
    chargedNanos: call?.chargedNanos.toString(),
    failure: failure?.name,
    cause: failure?.cause,
  };
  if (failure && status >= 500) relay.log.error(fields, "call failed");
  else relay.log.info(fields, "call");
}

type Report = {
  rid: string;
  startedAtMs: number;
  call: LiveCall | undefined;
  failure: Failure | undefined;
  incoming: Incoming;
};
