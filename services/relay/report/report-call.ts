import { endName } from "#shared/money/end-name.ts";
import { infoPlain, type Logger, type PlainFields } from "#shared/process/log.ts";
import type { Caller } from "../charge/admit.ts";
import { callOutcomeOf } from "./call-outcome.ts";
import { overheadsOf, type CallTimes } from "../call-times.ts";
import type { Failure } from "../failures.ts";
import type { CallResponse } from "../http/exchange.ts";
import type { CallTrace, LiveCall } from "../live-call.ts";
import type { Metrics } from "../metrics.ts";
import { isOfCaller, type Refusals } from "./refusals.ts";
import { endTrace, type TraceSettings } from "./trace-call.ts";

/** A call that has been answered. */
export type Report = {
  rid: string;
  startedAtMs: number;
  times: CallTimes;
  endpoint: string;
  ip: string;
  /** The socket on which it was asked; left out over HTTP. */
  socket?: string;
  response: CallResponse;
  method: string;
  trace: CallTrace | undefined;
  /** Undefined when no money was held. */
  call: LiveCall | undefined;
  failure: Failure | undefined;
  /** Left out: nobody is told of what was refused to them. */
  caller?: Pick<Caller, "owner"> | undefined;
  /** How the answer ended; left out: as the call did. */
  end?: string | undefined;
};

function endOf({ call, failure, response }: Report): string {
  if (call) return endName(call.endCause);
  return failure || !response.headersSent ? "refused" : "complete";
}

function observeTimes({ times, endpoint, trace, call }: Report, metrics: Metrics): void {
  const { overhead, addedLatency, timeToFirstByte } = metrics;
  const traceId = trace?.traceId ?? "";
  const { reserve, prepare, firstByte, settle, total } = overheadsOf(times);
  if (reserve !== undefined) overhead.reserve.observe(reserve / 1_000, traceId);
  if (prepare !== undefined) overhead.prepare.observe(prepare / 1_000, traceId);
  if (firstByte !== undefined) overhead.firstByte.observe(firstByte / 1_000, traceId);
  if (settle !== undefined) overhead.settle.observe(settle / 1_000, traceId);
  if (total !== undefined) addedLatency.observe({ endpoint }, total / 1_000, traceId);
  if (times.firstByteAt > 0) {
    const labels = { endpoint, streamed: String(call?.isStream ?? false) };
    timeToFirstByte.observe(labels, (times.firstByteAt - times.receivedAt) / 1_000, traceId);
  }
}

type Failed = Failure & { isOurs: boolean };

function logFailure(fields: PlainFields & { status: number }, { name, cause, isOurs }: Failed, log: Logger): void {
  const told = { ...fields, failure: name, cause };
  if (fields.status >= 500 || isOurs) log.error(told, "call failed");
  else log.info(told, "call");
}

/** `loggedShare`: of calls that succeed, 0 to 1; every other call has its line. */
export type ReportDeps = {
  metrics: Metrics;
  log: Logger;
  loggedShare: number;
  tracing: TraceSettings;
  refusals?: Refusals | undefined;
};

/** One count per call, and one log line unless it is a successful one that is left out. */
export function reportCall(report: Report, deps: ReportDeps): void {
  const { metrics, log, loggedShare, tracing, refusals } = deps;
  const { rid, startedAtMs, endpoint, ip, response, call, failure, trace, socket, end = endOf(report) } = report;
  const durationMs = Date.now() - startedAtMs;
  const status = response.headersSent ? response.statusCode : 499;
  const outcome = callOutcomeOf({ failure, end, status });
  metrics.calls.inc({ endpoint, status: String(status), end, outcome });
  metrics.callSeconds.observe({ endpoint, streamed: String(call?.isStream ?? false) }, durationMs / 1_000);
  if (call) {
    metrics.modelCalls.inc({ model: call.offered.id, upstream: call.upstream || "none", outcome });
    metrics.failedCall(call.accountId, outcome);
    metrics.recentCalls.count(call.offered.id, outcome);
  }
  const owner = report.caller?.owner;
  // A call that held money is in the ledger.
  if (failure && owner && !call && isOfCaller(outcome)) refusals?.note(owner, { rid, failure, status, endpoint });
  observeTimes(report, metrics);
  const fields = {
    rid,
    endpoint,
    ip,
    status,
    end,
    durationMs,
    account: call?.accountId,
    key: call?.keyId,
    model: call?.model.id,
    upstream: call?.upstream,
    chargedNanos: call?.chargedNanos.toString(),
    traceId: trace?.traceId,
    socket,
  };
  if (failure) logFailure(fields, { ...failure, isOurs: outcome === "gateway_error" }, log);
  else if (outcome !== "ok" || loggedShare === 1 || Math.random() < loggedShare) infoPlain(log, fields, "call");
  if (trace) endTrace(trace, { ...report, status, end, failure: failure?.name }, tracing);
}
