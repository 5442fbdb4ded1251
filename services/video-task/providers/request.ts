import { errors, type Dispatcher } from "undici";
import type { Pools } from "#shared/catalog/pools.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { ProviderAnswer, ProviderRequest } from "./provider.ts";
import { createReader, retryAfterOf } from "./read-answer.ts";

/** The result of a request to a provider. */
export type ProviderResult =
  | { kind: "answer"; answer: ProviderAnswer }
  /** The provider has certainly not received it. */
  | { kind: "unsent"; cause: string }
  /** The provider may have received it; there was no answer. */
  | { kind: "silent"; cause: string };

/** Sends a request to a provider. Never rejects. The only way from this service to providers. */
export type RequestProvider = (upstream: Upstream, request: ProviderRequest) => Promise<ProviderResult>;

const longestMs = 120_000;

// Uncompressed, as nothing here decompresses.
const standardHeaders = ["accept-encoding", "identity", "user-agent", "model-relay"];

/**
 * Sends requests once, without following redirects, within the upstream's timeouts and 120 s in all, including the wait
 * for a connection. Answers are read up to 1 MiB; of a larger one or one that is not valid JSON, only the head counts.
 * The upstream's secrets are removed from its texts.
 */
export function createProviderRequests(pools: Pools): RequestProvider {
  return (upstream, request) => requestOnce(pools.poolOf(upstream), upstream, request);
}

function requestOnce(pool: Dispatcher, upstream: Upstream, request: ProviderRequest): Promise<ProviderResult> {
  return new Promise((resolve) => {
    let isStarted = false;
    let isGivenUp = false;
    let controller: Dispatcher.DispatchController | undefined;
    let head: Pick<ProviderAnswer, "status" | "retryAfterSeconds"> | undefined;
    const reader = createReader(upstream);
    const totalMs = Math.min(upstream.totalTimeoutMs, longestMs);
    const timer = setTimeout(() => giveUp(new errors.HeadersTimeoutError(`no answer within ${totalMs} ms`)), totalMs);
    const finish = (error?: Error): void => {
      clearTimeout(timer);
      // A truncated answer may still hold the whole JSON; otherwise its status may still be a definite refusal.
      if (head) return resolve({ kind: "answer", answer: { ...head, body: reader.read() } });
      resolve({ kind: isStarted ? "silent" : "unsent", cause: error?.message ?? "no answer" });
    };
    const giveUp = (error: Error): void => {
      isGivenUp = true;
      finish(error);
      controller?.abort(error);
    };
    const handler: Dispatcher.DispatchHandler = {
      // Called when there is a connection, right before the first byte is sent.
      onRequestStart: (started) => {
        controller = started;
        if (isGivenUp) return started.abort(new Error("request given up"));
        isStarted = true;
      },
      onResponseStart: (_controller, status, headers) => {
        if (status >= 200) head = { status, retryAfterSeconds: retryAfterOf(headers["retry-after"]) };
      },
      onResponseData: (_controller, chunk) => {
        if (!reader.take(chunk)) giveUp(new Error("answer too large"));
      },
      onResponseEnd: () => finish(),
      onResponseError: (_controller, error) => finish(error),
    };
    try {
      pool.dispatch(dispatchOf(upstream, request), handler);
    } catch (error) {
      // An invalid header, or a closed pool.
      finish(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

function dispatchOf({ baseUrl, headers: own }: Upstream, request: ProviderRequest): Dispatcher.DispatchOptions {
  const { method, path, headers, body = null } = request;
  return {
    origin: baseUrl.origin,
    method,
    path: `${baseUrl.pathname.replace(/\/$/, "")}${path}`,
    headers: [...standardHeaders, ...headers, ...own],
    body,
  };
}
