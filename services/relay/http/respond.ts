import type { ErrorWriter } from "../dialects/dialect.ts";
import { renderFailure, type Failure, type RenderedFailure } from "../failures.ts";
import type { CallResponse } from "./exchange.ts";

/** API spec, Request ID: both names, the same value, on every answer. */
export function requestIdHeaders(rid: string): Record<string, string> {
  return { "x-request-id": rid, "request-id": rid };
}

export const eventStreamType = "text/event-stream; charset=utf-8";

/** Headers of a streamed answer; proxies on the way must neither hold back, change nor store it. */
export function streamHeaders(rid: string, contentType = eventStreamType): Record<string, string> {
  return {
    "content-type": contentType,
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    ...requestIdHeaders(rid),
  };
}

function renderIn(dialect: ErrorWriter, failure: Failure): RenderedFailure {
  return renderFailure(failure, dialect.format);
}

/** The status by which a caller of this dialect will be told of a failure; 0 when nobody is there to be told. */
export function statusOfFailure(response: CallResponse, failure: Failure, dialect: ErrorWriter): number {
  return response.destroyed ? 0 : renderIn(dialect, failure).status;
}

/** Answers with a failure in the caller's format. Does nothing when an answer has begun. */
export function respondFailure(
  response: CallResponse,
  { rid, failure, dialect }: { rid: string; failure: Failure; dialect: ErrorWriter },
): void {
  if (response.headersSent || response.destroyed) return;
  const rendered = renderIn(dialect, failure);
  const body = Buffer.from(dialect.writeError(rendered));
  const headers: Record<string, string | number> = {
    "content-type": "application/json",
    "content-length": body.length,
    ...requestIdHeaders(rid),
  };
  if (rendered.retryAfterSeconds !== undefined) headers["retry-after"] = rendered.retryAfterSeconds;
  if (rendered.shouldRetry !== undefined) headers["x-should-retry"] = String(rendered.shouldRetry);
  // A caller who is still sending would lose the answer if the connection were closed then; what comes is dropped.
  if (!response.req.complete) {
    const { socket } = response;
    // One who wanted it closed gets that when all has come.
    if (!response.shouldKeepAlive) response.req.once("end", () => socket?.end());
    response.shouldKeepAlive = true;
    response.req.resume();
  }
  response.writeHead(rendered.status, headers).end(body);
}

const maxDroppedLength = 2_000;

/** Names the fields of the request that the upstream's dialect could not carry; none when all went through. */
export function droppedHeader(dropped: readonly string[]): Record<string, string> {
  if (dropped.length === 0) return {};
  // Names are the caller's own, and a header cannot hold them all.
  const shown = dropped.slice(0, maxDroppedLength).map((name) => name.slice(0, maxDroppedLength));
  const names = shown.map((name) => name.replaceAll(/[^\w.-]/g, "_")).join(", ");
  return { "x-relay-dropped": names.slice(0, maxDroppedLength) };
}

/** Answers with a whole reply, head and body in one write. */
export function respondReply(
  response: CallResponse,
  rid: string,
  body: Buffer,
  headers: Record<string, string> = { "content-type": "application/json" },
): void {
  if (response.destroyed) return;
  response.writeHead(200, { ...headers, "content-length": body.length, ...requestIdHeaders(rid) }).end(body);
}
