import type { IncomingMessage, ServerResponse } from "node:http";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { createRid } from "#shared/money/rid.ts";
import type { Roster } from "#shared/process/roster.ts";
import { callerOf, reserve, type Caller } from "./charge/admit.ts";
import type { BodyBudget, BodyShare } from "./http/body-budget.ts";
import { beginTimes, type CallTimes } from "./call-times.ts";
import type { LiveCatalog } from "./catalog/catalog.ts";
import { pricedFor, type Model } from "./catalog/models.ts";
import { chooseRoutes, findModel, type Route } from "./catalog/choose.ts";
import { isStrict } from "./conversion/convert.ts";
import { deliver, type Deliverable } from "./stream/deliver.ts";
import type { Dialect, Envelope } from "./dialects/dialect.ts";
import { refuseEndpoint } from "./http/endpoints.ts";
import { expectedCauses, CallFailure, type Failure, type FailureName } from "./failures.ts";
import { beginLiveCall, type CallTrace, type LiveCall, type Requested } from "./live-call.ts";
import { countInputTokens, estimateInputTokens } from "./charge/meter.ts";
import type { Metrics } from "./metrics.ts";
import { countLosses, createPreparation, refuseLosses, type Preparation } from "./conversion/prepare.ts";
import { reachUpstream, type Outgoing } from "./upstream/reach.ts";
import { readEnvelope, readKey } from "./http/read.ts";
import { reportCall } from "./report/report-call.ts";
import { respondFailure, statusOfFailure } from "./http/respond.ts";
import type { Pools } from "#shared/catalog/pools.ts";
import { createSendSignal, SendError, type SendSignal } from "./upstream/send.ts";
import { release, settle, type Settling } from "./charge/settle.ts";
import { takeBody, type CheckKey } from "./http/take-body.ts";
import { beginTrace, type TraceSettings } from "./report/trace-call.ts";
import type { UpstreamHealth } from "./upstream/health.ts";
import type { Videos } from "./videos/videos.ts";

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
  live: Roster<LiveCall>;
  videos: Videos;
  tracing: TraceSettings;
  isDraining: boolean;
};

/** A request as it came in, its head read. */
export type Incoming = { request: IncomingMessage; response: ServerResponse; ip: string; dialect: Dialect };

/** What goes with a request through all of its steps. */
type Received = Incoming & {
  rid: string;
  startedAtMs: number;
  times: CallTimes;
  trace: CallTrace | undefined;
  signal: SendSignal;
};

/** A call that holds money, with all that is needed to serve it. */
type Admission = Outgoing & Deliverable;

/**
 * The path of a call: read → admit → choose → send → pump (or answer whole) → settle. Every step that cannot go on
 * throws a CallFailure, which is answered here, once, in the caller's format.
 */
export async function handleCall(incoming: Incoming, relay: Relay): Promise<void> {
  const { request, response, dialect, ip } = incoming;
  const times = beginTimes(performance.now());
  const trace = beginTrace(request, relay.tracing);
  const rid = createRid();
  const startedAtMs = Date.now();
  const signal = createSendSignal();
  response.on("close", () => {
    if (!response.writableFinished) signal.abort();
  });
  let call: LiveCall | undefined;
  let failure: Failure | undefined;
  let admission: Admission | undefined;
  try {
    admission = await admit({ request, response, ip, dialect, rid, startedAtMs, times, trace, signal }, relay);
    if (!admission) return;
    call = admission.call;
    relay.live.add(call);
    call.cut = cutBy(signal);
    await deliver(admission, await reachUpstream(admission, relay), relay);
  } catch (thrown) {
    failure = signal.isCut ? { name: "service_unavailable", cause: expectedCauses.stopping } : failureOf(thrown);
    if (call) call.httpStatus = statusOfFailure(response, failure, dialect);
    failCall(call, failure, signal, relay);
    respondFailure(response, { rid, failure, dialect });
  } finally {
    if (call) relay.live.delete(call);
    admission?.preparation.forget();
    const endpoint = dialect.path;
    reportCall({ rid, startedAtMs, times, trace, call, failure, method: "POST", endpoint, response, ip }, relay);
  }
}

/**
 * Cuts a call until its answer flows, which is cut by another way. Apart from handleCall, because a closure of that
 * kept whole calls: 6.7 MB instead of 0.9 MB survived a scavenge.
 */
const cutBy = (signal: SendSignal) => (): void => {
  signal.isCut = true;
  signal.abort();
};

/** Reads and checks the request and holds its price; undefined when the caller went away while sending. */
async function admit(received: Received, relay: Relay): Promise<Admission | undefined> {
  const { request, response, ip, dialect, times, signal } = received;
  const caller = callerOf(readKey(request.headers, dialect.format === "B"), ip);
  const taken = await takeBody({ request, response, caller }, relay, (body, checkKey) => {
    times.readAt = performance.now();
    return ask(body, received, relay, checkKey);
  });
  if (!taken) return undefined;
  const { envelope, routes, preparation } = taken.asked;
  const call = await hold(taken.asked, received, caller, relay);
  return { call, envelope, routes, preparation, callerHeaders: request.headers, signal, dialect, response };
}

type Asked = { envelope: Envelope; model: Model; requested: Requested; routes: Route[]; preparation: Preparation };

/** What is asked, of which model, where it can run, and how it is said there. Throws what a wrong request is told. */
function ask(
  body: Buffer,
  { request, response, dialect, times }: Received,
  relay: Relay,
  checkKey: CheckKey,
): Asked | Promise<Asked> {
  const envelope = readEnvelope(body, dialect, request.headers);
  const model = findModel(relay.catalog.current(), envelope.model);
  const routes = chooseRoutes(model, dialect.name);
  if (routes.length === 0) {
    const offersVideos = relay.videos.tasks !== undefined;
    return refuseEndpoint({ model, path: dialect.path, offersVideos, checkKey });
  }
  const { units, priceFields } = envelope;
  const requested = { inputTokens: countInputTokens(envelope, model), units, priceFields };
  const share = (): BodyShare => relay.bodyBudget.share(response);
  const preparation = createPreparation({ envelope, dialect, model, inputTokens: requested.inputTokens, share });
  const asked = { envelope, model, requested, routes, preparation };
  let fetchingAt = Infinity;
  const fetched = preparation.readFor(routes, async () => {
    // Nothing is fetched for strangers.
    await checkKey();
    fetchingAt = performance.now();
    return { share: share() };
  });
  if (!fetched) return sayable(asked, request, relay);
  return fetched.then(() => {
    times.awaitedMs += Math.max(0, performance.now() - fetchingAt);
    return sayable(asked, request, relay);
  });
}

/** Before money: what cannot be said where it runs is refused for nothing. */
function sayable(asked: Asked, request: IncomingMessage, relay: Relay): Asked {
  const [first] = asked.routes;
  const prepared = first && asked.preparation.for(first);
  if (!prepared || prepared.dropped.length === 0) return asked;
  if (isStrict(request.headers)) refuseLosses(prepared);
  countLosses(prepared, relay.metrics);
  return asked;
}

async function hold(
  { envelope, model: offered, requested }: Asked,
  { rid, startedAtMs, times, trace, dialect }: Received,
  caller: Caller,
  { settling: { quota }, catalog }: Relay,
): Promise<LiveCall> {
  const model = pricedFor(offered, () => ({
    fields: requested.priceFields,
    inputTokens: estimateInputTokens(envelope, offered),
  }));
  times.reservingAt = performance.now();
  const traceparent = trace?.traceparent ?? "";
  const { accountId, keyId, heldNanos } = await reserve(quota, caller, { rid, envelope, model, traceparent });
  times.reservedAt = performance.now();
  return beginLiveCall({
    generation: quota.generation(),
    rid,
    endpoint: dialect.path,
    accountId,
    keyId,
    offered,
    model,
    models: catalog.current().models,
    isStream: envelope.answer === "events",
    requested,
    heldNanos,
    startedAtMs,
    times,
    trace,
  });
}

/** Why a call failed, by what one of its steps has thrown. */
export function failureOf(thrown: unknown): Failure {
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
  const ofCaller = signal.isAborted ? EndCause.CLIENT_GONE : (endCauses[failure.name] ?? EndCause.UPSTREAM_ERROR);
  settle(relay.settling, call, signal.isCut ? EndCause.DRAINED : ofCaller);
}
