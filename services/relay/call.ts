import type { IncomingMessage, ServerResponse } from "node:http";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Logger } from "#shared/log.ts";
import { createRid } from "#shared/rid.ts";
import { authorize, callerOf, reserve, type Caller } from "./admit.ts";
import type { LiveCatalog } from "./catalog.ts";
import type { Model } from "./catalog-models.ts";
import { chooseRoutes, findModel, type Route } from "./choose.ts";
import type { Dialect, Envelope } from "./dialects/dialect.ts";
import { eventJson } from "./dialects/sse.ts";
import { CallFailure, type Failure, type FailureName } from "./failures.ts";
import { guardStream } from "./guard.ts";
import { beginLiveCall, type LiveCall } from "./live-call.ts";
import { countInputTokens } from "./meter.ts";
import type { Metrics } from "./metrics.ts";
import { pumpStream } from "./pump.ts";
import { reachUpstream, type Answered } from "./reach.ts";
import { readBody, readEnvelope, readKey } from "./read.ts";
import { respondFailure, respondReply, statusOfFailure, streamHeaders } from "./respond.ts";
import { createSendSignal, SendError, type Answer, type Pools, type SendSignal } from "./send.ts";
import { release, settle, type Settling } from "./settle.ts";
import { upstreamFailure } from "./upstream-failure.ts";
import { readWhole } from "./whole.ts";

/** What the path of a call needs of its process. */
export type Relay = {
  catalog: LiveCatalog;
  pools: Pools;
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
    await deliver(admission, answered, incoming, relay);
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
  const caller = callerOf(readKey(request.headers, dialect.name === "anthropic-messages"), incoming.ip);
  const checkKey = async (): Promise<void> => {
    await authorize(quota, { ...caller });
    caller.ip = "";
  };
  const body = await readBody(request, checkKey);
  if (!body) return undefined;
  let envelope: Envelope;
  let model: Model;
  let routes: Route[];
  try {
    envelope = readEnvelope(body, dialect, request.headers);
    model = findModel(relay.catalog.current(), envelope.model);
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
  const countedInputTokens = countInputTokens(envelope, model);
  const { isStream } = envelope;
  return beginLiveCall({
    rid,
    endpoint,
    accountId,
    keyId,
    model,
    isStream,
    countedInputTokens,
    heldNanos,
    startedAtMs,
  });
}

const isEncoded = ({ headers }: Answer): boolean => (headers["content-encoding"] ?? "identity") !== "identity";

function isStreamed(answer: Answer): boolean {
  const type = String(answer.headers["content-type"] ?? "");
  return answer.status === 200 && type.startsWith("text/event-stream") && !isEncoded(answer);
}

/** Gives the upstream's answer to the caller, and its end to the ledger before that. */
async function deliver(
  { call, envelope }: Admission,
  { answer, route }: Answered,
  { response, dialect }: Incoming,
  relay: Relay,
): Promise<void> {
  if (envelope.isStream && isStreamed(answer))
    return deliverStream({ call, envelope, answer, response, dialect }, relay);
  const body = await readWhole(answer, relay.limits.maxReplyBytes);
  const parsed = isEncoded(answer) ? undefined : eventJson(body.toString());
  if (answer.status !== 200) throw new CallFailure(upstreamFailure(answer.status, parsed, dialect, route.upstream));
  const tally = envelope.isStream ? undefined : dialect.readReply(parsed);
  if (!tally) throw new CallFailure({ name: "upstream_invalid", cause: answer.headers });
  call.tally = tally;
  call.httpStatus = 200;
  settle(relay.settling, call, EndCause.COMPLETE);
  respondReply(response, call.rid, body);
}

type StreamDelivery = {
  call: LiveCall;
  envelope: Envelope;
  answer: Answer;
  response: ServerResponse;
  dialect: Dialect;
};

function deliverStream({ call, envelope, answer, response, dialect }: StreamDelivery, relay: Relay): Promise<void> {
  call.httpStatus = 200;
  response.writeHead(200, streamHeaders(call.rid)).flushHeaders();
  const { cut, over, stalledMs } = pumpStream({
    answer,
    response,
    tap: dialect.createTap(envelope),
    tally: call.tally,
    maxEventBytes: relay.limits.maxEventBytes,
    brokenStreamEnd: dialect.brokenStreamEnd,
    onEnd: (endCause) => settle(relay.settling, call, endCause),
    onPiece: () => guardStream(relay.settling, call),
  });
  call.cut = cut;
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
