import type { IncomingHttpHeaders } from "node:http";
import type { CallTimes } from "../call-times.ts";
import type { Route } from "../catalog/choose.ts";
import type { AnswerKind, Envelope } from "../dialects/dialect.ts";
import { CallFailure, type Failure, type FailureName } from "../failures.ts";
import { learn, learnFromError, type AttemptDeps } from "./record-attempt.ts";
import type { LiveCall } from "../live-call.ts";
import type { Preparation, Prepared } from "../conversion/prepare.ts";
import type { Pools } from "#shared/catalog/pools.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import { firstError } from "./first-error.ts";
import { inflated } from "./inflated.ts";
import { send, SendError, type Answer, type SendSignal, type SentAnswer, type UpstreamRequest } from "./send.ts";
import type { TurnSending } from "./send-turn.ts";
import { upstreamFailure } from "./failure.ts";
import { countFault, faultOfError, faultOfStatus } from "./faults.ts";
import { obstacles, type Obstacle, type Place } from "./health.ts";
import { readErrorBody } from "./whole.ts";

// Unencoded, because the meter reads the answer on its way.
const standardHeaders = ["accept-encoding", "identity", "user-agent", "model-relay"];

const acceptedTypes: Record<AnswerKind, string> = {
  json: "application/json",
  text: "*/*",
  events: "text/event-stream",
  bytes: "*/*",
};

/** What reaching an upstream needs of its process. */
export type Reach = AttemptDeps & { pools: Pools };

/** A call on its way out. */
export type OutgoingCall = {
  call: LiveCall;
  envelope: Envelope;
  preparation: Preparation;
  routes: Route[];
  callerHeaders: IncomingHttpHeaders;
  signal: SendSignal;
  /** A turn of a caller's socket, which may have one to the upstream as well. */
  turn?: TurnSending | undefined;
};

/** What the request of a call is made of. */
type RequestParts = Pick<OutgoingCall, "envelope" | "callerHeaders" | "signal"> & { call: Pick<LiveCall, "rid"> };

/** The answer, with status 200, of the upstream that took the call. */
export type UpstreamAnswer = { answer: Answer; route: Route; prepared: Prepared };

/** Why an upstream did not serve; final: no other may be asked. */
type Failed = { failure: Failure; isAnswer: boolean; isFinal: boolean };

// The upstream has said that it did not serve the call, so that another may.
const failoverStatuses = new Set([401, 402, 403, 429, 500, 502, 503, 529]);

/** Whether an upstream that answers so did not serve, so that another may be asked. */
export function isFailover(status: number, { name }: Failure): boolean {
  // Anthropic says with 400 that it does not serve our account.
  const isRefused = name === "upstream_account" && status >= 400 && status < 500;
  return isRefused || failoverStatuses.has(status);
}

/** What a caller is told whose upstreams are all left alone. */
export const failuresOfObstacles: Record<Obstacle, FailureName> = {
  busy: "service_unavailable",
  rate: "upstream_rate",
  unavailable: "upstream_unavailable",
  account: "upstream_account",
};

/**
 * Asks the upstreams in order, none twice and none that is left alone for now, until one answers. When all are left
 * alone and one of them for want of a slot, the call waits for one there, for a moment. The next one is asked
 * only when the one before certainly never saw the request, or has answered that it did not serve it; never when it may
 * have done the work. Throws a CallFailure: of the last upstream that answered, else of the last that was asked, else
 * of why none was asked.
 */
export async function reachUpstream(outgoing: OutgoingCall, reach: Reach): Promise<UpstreamAnswer> {
  const { call, routes, signal } = outgoing;
  const asked: string[] = [];
  const met: Obstacle[] = [];
  let left: string | undefined;
  let busy: Route | undefined;
  let told: (Failed & { route: Route }) | undefined;
  for (const route of routes) {
    const { name } = route.upstream;
    // Nobody is there for whom another one should be asked.
    if (signal.isAborted || call.isOrphan) break;
    if (asked.includes(name)) continue;
    const place = reach.health.enter(route, performance.now(), call.accountId);
    if (typeof place === "string") {
      met.push(place);
      if (place === "busy") busy ??= route;
      reach.metrics.upstreamSkips.inc({ upstream: name, reason: place });
      continue;
    }
    if (left !== undefined) reach.metrics.failovers.inc({ upstream: left });
    left = name;
    asked.push(name);
    assign(call, route);
    const isLast = routes.every(({ upstream }) => asked.includes(upstream.name));
    const attempt = await askUpstream(outgoing, place, { route, isLast }, reach);
    if ("answer" in attempt) return attempt;
    const { failure } = attempt;
    if (attempt.isFinal) throw new CallFailure(failure);
    if (attempt.isAnswer || !told?.isAnswer) told = { ...attempt, route };
    // Of the only one, the call's own line tells.
    if (routes.length === 1) break;
    reach.log.warn({ rid: call.rid, upstream: name, failure: failure.name, cause: failure.cause }, "upstream failed");
  }
  if (busy && !told && !signal.isAborted) {
    const served = await askWhenFree(outgoing, busy, reach);
    if (served) return served;
  }
  if (signal.isAborted) throw new CallFailure({ name: "service_unavailable", cause: "the caller went away" });
  if (!told) throw new CallFailure(failureOfObstacles(met));
  assign(call, told.route);
  throw new CallFailure(told.failure);
}

/** Waits for a slot of an upstream; undefined when there is none in time. */
async function askWhenFree(outgoing: OutgoingCall, route: Route, reach: Reach): Promise<UpstreamAnswer | undefined> {
  const { call, signal } = outgoing;
  const waitingAt = performance.now();
  const { entry, cancel } = reach.health.wait(route, () => performance.now(), call.accountId);
  const abort = signal.abort;
  signal.abort = () => {
    abort();
    cancel();
  };
  const place = await entry;
  signal.abort = abort;
  call.times.awaitedMs += performance.now() - waitingAt;
  if (typeof place === "string") return undefined;
  if (signal.isAborted) {
    reach.health.leave(place);
    return undefined;
  }
  assign(call, route);
  const attempt = await askUpstream(outgoing, place, { route, isLast: true }, reach);
  if ("answer" in attempt) return attempt;
  throw new CallFailure(attempt.failure);
}

function assign(call: LiveCall, { upstream, model }: Route): void {
  call.upstream = upstream.name;
  call.upstreamModel = model;
  call.onCallerGone = upstream.onCallerGone;
}

/** Of a model all of whose upstreams are left alone: the caller is told of the one that will serve the soonest. */
function failureOfObstacles(met: Obstacle[]): Failure {
  const nearest = obstacles.find((obstacle) => met.includes(obstacle)) ?? "unavailable";
  return { name: failuresOfObstacles[nearest], cause: `every upstream is left alone for now: ${met.join(", ")}` };
}

/** Which upstream is asked, and whether no other is left to ask behind it. */
type Asked = { route: Route; isLast: boolean };

async function askUpstream(
  outgoing: OutgoingCall,
  place: Place,
  { route, isLast }: Asked,
  reach: Reach,
): Promise<UpstreamAnswer | Failed> {
  const { call, signal, preparation } = outgoing;
  const { upstream } = route;
  const attempt = { rid: call.rid, place };
  const { times } = call;
  let prepared: Prepared;
  let answer: Answer;
  let sent: SentAnswer | undefined;
  try {
    const preparing = preparation.for(route);
    // A large request comes from a thread; any other is there, and goes out in this turn.
    prepared = preparing instanceof Promise ? await preparing : preparing;
    noteAsking(times);
    const request = requestOf(outgoing, route, prepared, () => reach.health.leave(place));
    const { turn } = outgoing;
    const told = turn && (await turn.send({ route, prepared, request, call }));
    answer = told ?? (sent = inflated(await send(reach.pools.poolOf(upstream), request)));
  } catch (error) {
    reach.health.leave(place);
    // It cannot even be said there; another route may carry it.
    if (error instanceof CallFailure) return { failure: error.failure, isAnswer: false, isFinal: false };
    if (!(error instanceof SendError)) throw error;
    times.leftAt = performance.now();
    const name = error.failureName;
    if (signal.isAborted) learn(reach, attempt, "client_gone", "unknown");
    else {
      learn(reach, attempt, error.isUnsent ? "not_sent" : name, "down");
      countFault(reach.metrics, upstream.name, faultOfError(error));
    }
    return { failure: { name, cause: error.cause }, isAnswer: false, isFinal: !error.isUnsent };
  }
  faultPoint("relay: upstream accepted, nothing answered");
  call.firstByteAtMs = Date.now();
  times.answeredAt = performance.now();
  reach.metrics.firstByteSeconds.observe({ upstream: upstream.name }, (times.answeredAt - times.sentAt) / 1_000);
  // Of a caller's socket the turn has seen to it.
  const error = await errorOf({ answer, sent: isLast ? undefined : sent, route, prepared }, outgoing);
  if (!error) {
    times.answeredAt = performance.now();
    learn(reach, attempt, "answered", "up");
    return { answer, route, prepared };
  }
  const { status, failure } = error;
  times.leftAt = performance.now();
  countFault(reach.metrics, upstream.name, faultOfStatus(status));
  learnFromError(reach, attempt, { status, headers: answer.headers }, failure.name);
  return { failure, isAnswer: true, isFinal: !isFailover(status, failure) };
}

/** An answer as it came; `sent` where another upstream may be asked if it turns out to be none. */
type Came = { answer: Answer; sent: SentAnswer | undefined; route: Route; prepared: Prepared };

/**
 * The error that an upstream answers: a status other than 200, or one with which a stream of 200 begins, where it has
 * not served and another may. Any other error within a stream is the caller's to see.
 */
async function errorOf(
  { answer, sent, route: { upstream }, prepared: { dialect } }: Came,
  { envelope, signal }: OutgoingCall,
): Promise<{ status: number; failure: Failure } | undefined> {
  const { status } = answer;
  if (status !== 200) {
    return { status, failure: upstreamFailure(status, await readErrorBody(answer), dialect, upstream) };
  }
  const first = sent && (await firstError(sent, envelope, dialect));
  if (!first) return undefined;
  const failure = upstreamFailure(first.status, first.body, dialect, upstream);
  if (!isFailover(first.status, failure)) return undefined;
  answer.abort();
  signal.isBillable = false;
  return { status: first.status, failure };
}

/** The wait for the upstream before, which did not serve, is none of ours. */
function noteAsking(times: CallTimes): void {
  if (times.sentAt > 0) times.awaitedMs += times.leftAt - times.sentAt;
  times.sentAt = performance.now();
}

/** The request of a call to an upstream: where it goes, and with which headers. */
export function requestOf(
  { call, envelope, callerHeaders, signal }: RequestParts,
  { upstream, model }: Route,
  { dialect, body, conversion }: Prepared,
  onOver: () => void,
): UpstreamRequest {
  const headers = [...standardHeaders, "content-type", envelope.body.contentType];
  headers.push("accept", acceptedTypes[envelope.answer], "x-request-id", call.rid);
  // A caller's version and beta headers are of the caller's format.
  const kept = conversion ? {} : callerHeaders;
  headers.push(...dialect.upstreamHeaders(upstream.credential, kept), ...upstream.headers);
  return {
    origin: upstream.baseUrl.origin,
    path: `${upstream.baseUrl.pathname.replace(/\/$/, "")}${dialect.upstreamPath(model, envelope.answer)}`,
    headers,
    body,
    signal,
    totalTimeoutMs: upstream.totalTimeoutMs,
    onOver,
  };
}
