import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Logger } from "#shared/process/log.ts";
import { createRid } from "#shared/money/rid.ts";
import type { ActiveSet } from "#shared/process/active-set.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { admit, callerOf, type Caller } from "./charge/admit.ts";
import type { BodyBudget, BodyShare } from "./http/body-budget.ts";
import { beginTimes, type CallTimes } from "./call-times.ts";
import type { LiveCatalog } from "./catalog/catalog.ts";
import type { Model } from "./catalog/models.ts";
import { chooseRoutes, findModel, type Route } from "./catalog/choose.ts";
import { bindState, unsharedIds, type BoundState } from "./conversion/bind-state.ts";
import { isStrict } from "./conversion/convert.ts";
import { deliver, type Deliverable } from "./stream/deliver.ts";
import type { ReplyRoom } from "./http/reply-room.ts";
import type { Orphans } from "./stream/orphans.ts";
import type { Dialect, Envelope } from "./dialects/dialect.ts";
import type { RequestBody } from "./dialects/json/request-body.ts";
import { ManyValuesError } from "./dialects/json/scan.ts";
import { refuseEndpoint } from "./http/endpoints.ts";
import type { CallRequest, CallResponse } from "./http/exchange.ts";
import { expectedCauses, CallFailure, type Failure, type FailureName } from "./failures.ts";
import type { Leases } from "./charge/leases.ts";
import { beginLiveCall, type CallTrace, type LiveCall, type RequestFacts } from "./live-call.ts";
import { heldRow } from "./charge/held-row.ts";
import { refuseFallbacks } from "./charge/other-models.ts";
import { countInputTokens } from "./charge/meter.ts";
import type { Metrics } from "./metrics.ts";
import { withRecalled, type ItemMemory } from "./conversion/item-memory.ts";
import {
  claimReading,
  countLosses,
  isPassed,
  refuseLosses,
  type Preparation,
  type Prepared,
} from "./conversion/prepare.ts";
import { prepareWhereItFits } from "./conversion/prepare-where-it-fits.ts";
import type { LargeBody } from "./http/body.ts";
import { envelopeOfFacts, type BodyFacts } from "./threads/facts.ts";
import { largeBytes, longBytes, manyValues, type Threads, type ThreadSession } from "./threads/threads.ts";
import { reachUpstream, type OutgoingCall } from "./upstream/reach.ts";
import { readEnvelope, readingHeaders, readKey } from "./http/read.ts";
import { reportCall } from "./report/report-call.ts";
import type { Refusals } from "./report/refusals.ts";
import { respondFailure, statusOfFailure } from "./http/respond.ts";
import type { Pools } from "#shared/catalog/pools.ts";
import type { TurnSending } from "./upstream/send-turn.ts";
import { createSendSignal, SendError, type SendSignal } from "./upstream/send.ts";
import { release, settle, type SettlementDeps } from "./charge/settle.ts";
import { accountOf, keyOf, parseFor, takeAnyBody, type CheckKey } from "./http/take-body.ts";
import { beginTrace, type TraceSettings } from "./report/trace-call.ts";
import type { UpstreamHealth } from "./upstream/health.ts";
import type { Videos } from "./videos/videos.ts";

/** What the path of a call needs of its process. */
export type Relay = {
  catalog: LiveCatalog;
  pools: Pools;
  health: UpstreamHealth;
  bodyBudget: BodyBudget;
  threads: Threads;
  replies: ReplyRoom;
  items: ItemMemory;
  settling: SettlementDeps;
  /** Undefined: each call is admitted by auth-quota. */
  leases?: Leases | undefined;
  metrics: Metrics;
  log: Logger;
  limits: { maxReplyBytes: number; maxEventBytes: number };
  /** Calls that hold money now. */
  live: ActiveSet<LiveCall>;
  orphans: Orphans;
  videos: Videos;
  /** Share of successful calls that are logged, 0 to 1. */
  loggedShare: number;
  tracing: TraceSettings;
  refusals?: Refusals | undefined;
  isDraining: boolean;
};

/** A request as it came in, its head read; `socket` is the id of the socket on which it came. */
export type IncomingCall = {
  request: CallRequest;
  response: CallResponse;
  ip: string;
  dialect: Dialect;
  socket?: string;
  turn?: TurnSending;
};

/** What goes with a request through all of its steps. */
type CallContext = IncomingCall & {
  rid: string;
  startedAtMs: number;
  times: CallTimes;
  trace: CallTrace | undefined;
  signal: SendSignal;
  /** Called when the caller has left before the end of the answer. */
  onLeft: (signal: SendSignal) => void;
  /** Where the request is, when it is in a thread. */
  session: ThreadSession | undefined;
  caller: Caller | undefined;
  /** Its admission, once it was asked for, and once it holds money. */
  admitting: Promise<Admission> | undefined;
  admission: Admission | undefined;
};

/** What a request asks for, where it can be served, and how it is put there. */
type ParsedRequest = {
  envelope: Envelope;
  model: Model;
  requested: RequestFacts;
  routes: Route[];
  preparation: Preparation;
};

/** A call that holds money, with all that is needed to serve it. */
type Admission = OutgoingCall & Deliverable;

/** Why no call is taken, whatever it asks for; undefined while the operators have not closed the API. */
export function closedFor({ catalog, settling }: Relay): Failure | undefined {
  const isClosed = catalog.current().isMaintenance || settling.quota.isMaintenance();
  return isClosed ? { name: "service_unavailable", cause: expectedCauses.maintenance } : undefined;
}

/**
 * The path of a call, a line for each step. A step that cannot go on throws a CallFailure, which is answered here,
 * once, in the caller's format. From its admission on a call holds money: it is settled when its answer ends, or fails.
 */
export async function handleCall(incoming: IncomingCall, relay: Relay): Promise<void> {
  const received = receive(incoming, relay);
  const { request, dialect, ip } = incoming;
  let failure: Failure | undefined;
  try {
    const caller = (received.caller = callerOf(readKey(request.headers, dialect.format === "B"), ip));
    const openSession = (): ThreadSession => openFor(received, caller, relay);
    // Once, and before anything is fetched for the call.
    const admit = (parsed: ParsedRequest): Promise<Admission> =>
      (received.admitting ??= admitCall(parsed, caller, received, relay));
    const mostHere = dialect.takesForm ? largeBytes : longBytes;
    const body = await takeAnyBody({ ...incoming, caller }, { ...relay, openSession, mostHere });
    if (!body) return;
    const parsed = await parseFor(caller, relay, (checkKey) =>
      parseRequest({ ...received, body, caller, openSession, admit }, relay, checkKey),
    );
    const admission = await admit(parsed);
    const answered = await reachUpstream(admission, relay);
    await deliver(admission, answered, relay, settlementOf(admission.call, relay));
  } catch (thrown) {
    failure =
      received.signal.cutCause === EndCause.DRAINED
        ? { name: "service_unavailable", cause: expectedCauses.stopping }
        : failureOf(thrown);
    if (received.admission) settleFailed(received.admission, failure, relay);
    respondFailure(incoming.response, { rid: received.rid, failure, dialect });
  } finally {
    leave(received, failure, relay);
  }
}

/** Begins what accompanies a request. */
function receive(incoming: IncomingCall, { tracing }: Relay): CallContext {
  const { request, response } = incoming;
  const times = beginTimes(performance.now());
  const trace = beginTrace(request, tracing);
  const signal = createSendSignal();
  const received: CallContext = {
    ...incoming,
    caller: undefined,
    rid: createRid(),
    startedAtMs: Date.now(),
    times,
    trace,
    signal,
    onLeft,
    session: undefined,
    admitting: undefined,
    admission: undefined,
  };
  response.on("close", () => {
    if (response.writableFinished) return;
    received.session?.cancel();
    received.onLeft(signal);
  });
  return received;
}

function openFor(received: CallContext, caller: Caller, { threads }: Relay): ThreadSession {
  return (received.session ??= threads.open(accountOf(caller)));
}

/** A request whose body is here, or in a thread. */
type CallWithBody = CallContext & {
  body: Buffer | LargeBody;
  caller: Caller;
  openSession: () => ThreadSession;
  admit: (parsed: ParsedRequest) => Promise<Admission>;
};

/**
 * Reads the request, finds its model and the routes to it, and prepares what the first upstream gets. Throws the
 * CallFailure that the caller is told.
 */
function parseRequest(read: CallWithBody, relay: Relay, checkKey: CheckKey): ParsedRequest | Promise<ParsedRequest> {
  const { body, dialect, request, times } = read;
  times.readAt = performance.now();
  const envelope = Buffer.isBuffer(body) ? readHere(body, read, relay) : undefined;
  if (envelope) return plan({ ...read, checkKey }, relay, envelope);
  const large = Buffer.isBuffer(body) ? handOver(body, read) : body;
  return large.session
    .work<"read">({ kind: "read", dialect: dialect.name, headers: readingHeaders(request.headers) })
    .then((facts) => plan({ ...read, body: large, checkKey }, relay, envelopeOfFacts(facts), facts.body));
}

/** Undefined for a long body of so many values that it is read in a thread. */
function readHere(body: Buffer, read: CallWithBody, relay: Relay): Envelope | undefined {
  const { request, response, dialect, caller } = read;
  const complete = (envelope: Envelope): Envelope =>
    withRecalled(
      envelope,
      dialect,
      (id) => relay.items.recall(keyOf(caller), id),
      () => claimReading(sizeOf(envelope.body), () => relay.bodyBudget.share(response, caller)),
    );
  const mostValues = body.length > largeBytes ? manyValues : undefined;
  try {
    return readEnvelope(body, dialect, request.headers, { complete, mostValues });
  } catch (thrown) {
    if (thrown instanceof ManyValuesError) return undefined;
    throw thrown;
  }
}

/** Gives a body, which nothing here needs any more, to a thread. */
function handOver(body: Buffer, { openSession }: Pick<CallWithBody, "openSession">): LargeBody {
  const session = openSession();
  session.add("request", body, true);
  return { session, length: body.length };
}

const sizeOf = ({ bytes, values }: RequestBody) => ({ length: bytes.length, values });

function plan(
  read: CallWithBody & { checkKey: CheckKey },
  relay: Relay,
  envelope: Envelope,
  facts?: BodyFacts,
): ParsedRequest | Promise<ParsedRequest> {
  const { dialect, checkKey } = read;
  const model = findModel(relay.catalog.current(), envelope.model);
  const routes = chooseRoutes(model, dialect.name);
  if (routes.length === 0) {
    const offersVideos = relay.videos.tasks !== undefined;
    return refuseEndpoint({ model, path: dialect.path, offersVideos, checkKey });
  }
  const ids = unsharedIds(envelope, model);
  const { fallbackModels = [] } = envelope;
  if (ids.length === 0 && fallbackModels.length === 0) return planFor(read, relay, { envelope, model, routes }, facts);
  const isPassing = (route: Route): boolean => isPassed(route, dialect);
  // Whose they are, and what may be used, is known with the account.
  return checkKey().then(({ accountId, models: allowed }) => {
    const { models } = relay.catalog.current();
    refuseFallbacks(fallbackModels, { offered: model, routes: routes.filter(isPassing), models, allowed });
    const bound = bindState(ids, accountId, routes, isPassing);
    return planFor(read, relay, { envelope, model, ...bound }, facts);
  });
}

type Planned = { envelope: Envelope; model: Model; routes: Route[]; editsFor?: BoundState["editsFor"] };

function planFor(
  read: CallWithBody,
  relay: Relay,
  { envelope, model, routes, editsFor }: Planned,
  facts: BodyFacts | undefined,
): ParsedRequest | Promise<ParsedRequest> {
  const { request, dialect, times, response, caller } = read;
  const { units, leastMediaMs = 0n, triesPerChoice = 1, priceFields } = envelope;
  const inputTokens = countInputTokens(envelope, model);
  const requested = { inputTokens, units, leastMediaMs, triesPerChoice, priceFields };
  const share = (): BodyShare => relay.bodyBudget.share(response, caller);
  const remember = (item: unknown): void => relay.items.remember(keyOf(caller), item);
  const preparing = { envelope, dialect, model, inputTokens, editsFor, remember, share };
  const preparation = prepareWhereItFits(preparing, routes, { ...read, headers: request.headers }, facts);
  const parsed = { envelope, model, requested, routes, preparation };
  let fetchingAt = Infinity;
  const fetched = preparation.readFor(routes, async () => {
    // Nothing is fetched for strangers, nor for who has no money for what is asked.
    await read.admit(parsed);
    fetchingAt = performance.now();
    return { share: share(), signal: signalOfClose(response) };
  });
  if (!fetched) return checkConvertible(parsed, request, relay);
  return fetched.then(() => {
    times.awaitedMs += Math.max(0, performance.now() - fetchingAt);
    return checkConvertible(parsed, request, relay);
  });
}

/** Aborted when the caller has left. */
function signalOfClose(response: CallResponse): AbortSignal {
  const left = new AbortController();
  if (response.destroyed) left.abort();
  else response.once("close", () => left.abort());
  return left.signal;
}

/** Runs before admission, so that a request which cannot be converted is rejected without a hold. */
function checkConvertible(
  parsed: ParsedRequest,
  request: CallRequest,
  relay: Relay,
): ParsedRequest | Promise<ParsedRequest> {
  const [first] = parsed.routes;
  const prepared = first && parsed.preparation.for(first);
  const noted = (ready: Prepared | undefined): ParsedRequest => {
    if (!ready || ready.dropped.length === 0) return parsed;
    if (isStrict(request.headers)) refuseLosses(ready);
    countLosses(ready, relay.metrics);
    return parsed;
  };
  return prepared instanceof Promise ? prepared.then(noted) : noted(prepared);
}

/** Checks the key and its rates and holds the estimated price. Throws a CallFailure. */
async function admitCall(
  { envelope, model: offered, requested, routes, preparation }: ParsedRequest,
  caller: Caller,
  received: CallContext,
  relay: Relay,
): Promise<Admission> {
  const { rid, request, response, startedAtMs, times, trace, dialect, signal } = received;
  const model = heldRow(envelope, offered, requested);
  times.reservingAt = performance.now();
  const traceparent = trace?.traceparent ?? "";
  const hold = await admit(relay, caller, { rid, envelope, model, traceparent });
  times.reservedAt = performance.now();
  const call = beginLiveCall({
    ...hold,
    rid,
    endpoint: dialect.path,
    offered,
    model,
    models: relay.catalog.current().models,
    isStream: envelope.answer === "events",
    requested,
    startedAtMs,
    times,
    trace,
  });
  relay.live.add(call);
  faultPoint("relay: reserve granted, upstream not asked");
  call.cut = cutBy(signal);
  if (!signal.isAborted) received.onLeft = leaveBy(call, preparation, relay.orphans);
  const callerHeaders = request.headers;
  const { turn } = received;
  return (received.admission = {
    call,
    envelope,
    routes,
    preparation,
    callerHeaders,
    signal,
    dialect,
    response,
    turn,
  });
}

// The closures below stand apart from handleCall, because those of it kept whole calls alive: 6.7 MB instead of 0.9 MB
// survived a scavenge.

/** Ends a call that holds no money yet. */
const onLeft = (signal: SendSignal): void => signal.abort();

/** Lets the call be read on without its caller, or cut. Whatever was sent of its request is not sent again. */
const leaveBy =
  (call: LiveCall, preparation: Preparation, orphans: Orphans) =>
  (signal: SendSignal): void => {
    if (signal.isBillable) preparation.forget();
    orphans.leave(call, signal);
  };

/** Cuts a call until its answer flows, which is cut by another way. */
const cutBy =
  (signal: SendSignal) =>
  (endCause: EndCause): void => {
    signal.cutCause ??= endCause;
    signal.abort();
  };

/** Charges a call for what was served, when its answer has ended. */
const settlementOf =
  (call: LiveCall, { settling }: Relay) =>
  (endCause: EndCause): void => {
    settle(settling, call, endCause);
  };

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

/** Closes the books of a call that failed after its admission: nothing is charged, unless its caller has left it. */
function settleFailed({ call, signal, response, dialect }: Admission, failure: Failure, { settling }: Relay): void {
  call.httpStatus = statusOfFailure(response, failure, dialect);
  if (call.upstream === "") return release(settling, call);
  const ofCaller = signal.isAborted ? EndCause.CLIENT_GONE : undefined;
  settle(settling, call, signal.cutCause ?? ofCaller ?? endCauses[failure.name] ?? EndCause.UPSTREAM_ERROR);
}

/** Leaves nothing of a request behind but its log line. */
function leave(
  { admission, rid, startedAtMs, times, trace, ip, response, dialect, session, socket, caller }: CallContext,
  failure: Failure | undefined,
  relay: Relay,
): void {
  if (admission) {
    relay.live.delete(admission.call);
    relay.orphans.end(admission.call);
  }
  admission?.preparation.forget();
  session?.forget();
  const call = admission?.call;
  const { path: endpoint } = dialect;
  const report = { rid, startedAtMs, times, trace, call, failure, method: "POST", endpoint, response, ip, caller };
  reportCall(socket === undefined ? report : { ...report, socket }, relay);
}
