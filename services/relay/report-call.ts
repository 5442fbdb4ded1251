import type { ServerResponse } from "node:http";
import { EndCause } from "#proto/usage/v1/usage_pb.ts";
import type { Logger } from "#shared/log.ts";
import type { Failure } from "./failures.ts";
import type { LiveCall } from "./live-call.ts";
import type { Metrics } from "./metrics.ts";

/** A call that has been answered. */
export type Report = {
  rid: string;
  startedAtMs: number;
  endpoint: string;
  ip: string;
  response: ServerResponse;
  /** Undefined when no money was held. */
  call: LiveCall | undefined;
  failure: Failure | undefined;
  /** How the answer ended; left out: as the call did. */
  end?: string | undefined;
};

const endNames = new Map<EndCause, string>(
  Object.entries(EndCause).map(([name, cause]) => [cause, name.toLowerCase()]),
);

function endOf({ call, failure, response }: Report): string {
  if (call) return endNames.get(call.endCause) ?? "unknown";
  return failure || !response.headersSent ? "refused" : "complete";
}

/** One log line and one count per call. */
export function reportCall(report: Report, { metrics, log }: { metrics: Metrics; log: Logger }): void {
  const { rid, startedAtMs, endpoint, ip, response, call, failure, end = endOf(report) } = report;
  const durationMs = Date.now() - startedAtMs;
  const status = response.headersSent ? response.statusCode : 499;
  metrics.calls.inc({ endpoint, status, end });
  metrics.callSeconds.observe({ endpoint, streamed: String(call?.isStream ?? false) }, durationMs / 1_000);
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
    failure: failure?.name,
    cause: failure?.cause,
  };
  if (failure && status >= 500) log.error(fields, "call failed");
  else log.info(fields, "call");
}
