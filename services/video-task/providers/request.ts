import { errors, type Dispatcher } from "undici";
import type { Pools } from "#shared/catalog/pools.ts";
import type { Upstream } from "#shared/catalog/upstreams.ts";
import type { ProviderAnswer, ProviderRequest } from "./provider.ts";
import { createReader, retryAfterOf } from "./read-answer.ts";

/** What came of a question to a provider. */
export type Asked =
  | { kind: "answer"; answer: ProviderAnswer }
  /** The provider has certainly not seen it. */
  | { kind: "unsent"; cause: string }
  /** It may have seen it; there was no answer. */
  | { kind: "silent"; cause: string };

/** Asks a provider; resolves whatever happens. The only way from this service to providers. */
export type Ask = (upstream: Upstream, request: ProviderRequest) => Promise<Asked>;

const longestMs = 120_000;

// Unencoded, because nobody here decodes.
const standardHeaders = ["accept-encoding", "identity", "user-agent", "model-relay"];

/**
 * How providers are asked: once, without following redirects, within the upstream's timeouts and 120 s in all, waiting
 * for a connection included. An answer is read to 1 MiB; of one that is larger or no whole JSON only the head counts.
 * What gives access to the upstream is taken out of its texts.
 */
export function createAsk(pools: Pools): Ask {
  return (upstream, request) => askOnce(pools.poolOf(upstream), upstream, request);
}

function askOnce(pool: Dispatcher, upstream: Upstream, request: ProviderRequest): Promise<Asked> {
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
      // Of an answer that broke off, what came may be all of the JSON; else the status alone may be a clear no.
      if (head) return resolve({ kind: "answer", answer: { ...head, body: reader.read() } });
      resolve({ kind: isStarted ? "silent" : "unsent", cause: error?.message ?? "no answer" });
    };
    const giveUp = (error: Error): void => {
      isGivenUp = true;
      finish(error);
      controller?.abort(error);
    };
    const handler: Dispatcher.DispatchHandler = {
      // Called when there is a connection, right before the first byte goes out.
      onRequestStart: (started) => {
        controller = started;
        if (isGivenUp) return started.abort(new Error("not wanted any more"));
        isStarted = true;
      },
      onResponseStart: (_controller, status, headers) => {
        if (status >= 200) head = { status, retryAfterSeconds: retryAfterOf(headers["retry-after"]) };
      },
      onResponseData: (_controller, chunk) => {
        if (!reader.take(chunk)) giveUp(new Error("the answer is too large"));
      },
      onResponseEnd: () => finish(),
      onResponseError: (_controller, error) => finish(error),
    };
    try {
      pool.dispatch(dispatchOf(upstream, request), handler);
    } catch (error) {
      // A header that cannot be written, or a pool that was closed.
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
