import { errors, Pool, type Dispatcher } from "undici";
import type { Upstream } from "./catalog-upstreams.ts";
import type { FailureName } from "./failures.ts";

/** Takes an answer's body, piece by piece, in the turn in which it arrives. */
export type Consumer = { data: (chunk: Buffer) => void; end: () => void; fail: (error: Error) => void };

/** The head of an upstream's answer and the handles of its body. */
export type Answer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** Starts the flow; what came before is given at once. */
  consume: (consumer: Consumer) => void;
  pause: () => void;
  resume: () => void;
  abort: () => void;
};

export type UpstreamRequest = { path: string; headers: string[]; body: Buffer; signal: SendSignal };

/** Lets whoever started a call end it, also before a connection was free for it. */
export type SendSignal = { isAborted: boolean; abort: () => void };

export function createSendSignal(): SendSignal {
  const signal: SendSignal = {
    isAborted: false,
    abort: () => {
      signal.isAborted = true;
    },
  };
  return signal;
}

/** Connections to upstreams, kept open between calls; one pool per upstream and settings. */
export type Pools = AsyncDisposable & { poolOf: (upstream: Upstream) => Pool; retain: (upstreams: Upstream[]) => void };

const keyOf = ({ credential: _, ...settings }: Upstream): string => JSON.stringify(settings);

export function createPools(): Pools {
  const pools = new Map<string, Pool>();
  const byUpstream = new WeakMap<Upstream, Pool>();
  const open = (upstream: Upstream): Pool => {
    const key = keyOf(upstream);
    const existing = pools.get(key);
    if (existing) return existing;
    const pool = new Pool(upstream.baseUrl.origin, {
      connections: upstream.maxConnections,
      pipelining: 1,
      allowH2: false,
      connect: { timeout: upstream.connectTimeoutMs },
      headersTimeout: upstream.firstByteTimeoutMs,
      bodyTimeout: upstream.idleTimeoutMs,
    });
    pools.set(key, pool);
    return pool;
  };
  return {
    poolOf: (upstream) => {
      let pool = byUpstream.get(upstream);
      if (!pool) byUpstream.set(upstream, (pool = open(upstream)));
      return pool;
    },
    retain: (upstreams) => {
      const kept = new Set(upstreams.map(keyOf));
      for (const [key, pool] of pools) {
        if (kept.has(key)) continue;
        pools.delete(key);
        // Live answers on it go on to their end.
        void pool.close();
      }
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
    },
  };
}

/** An error of the connection or of the waiting, not an answer. */
export class SendError extends Error {
  readonly failureName: FailureName;
  /** Whether the upstream certainly never saw the request, so that another may be asked. */
  readonly isUnsent: boolean;

  constructor(cause: Error) {
    const isTimeout = cause instanceof errors.HeadersTimeoutError || cause instanceof errors.BodyTimeoutError;
    super(cause.message, { cause });
    this.failureName = isTimeout ? "upstream_timeout" : "upstream_unreachable";
    this.isUnsent =
      cause instanceof errors.ConnectTimeoutError || unsentCodes.has((cause as NodeJS.ErrnoException).code ?? "");
  }
}

const unsentCodes = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

/**
 * Holds back what arrives before somebody consumes it: the head resolves a promise, the body may follow in the same
 * turn.
 */
function createBody(): Consumer & { attach: (consumer: Consumer) => void } {
  let target: Consumer | undefined;
  let early: ((consumer: Consumer) => void)[] = [];
  const pass = (step: (consumer: Consumer) => void): void => {
    if (target) step(target);
    else early.push(step);
  };
  return {
    data: (chunk) => (target ? target.data(chunk) : pass((consumer) => consumer.data(chunk))),
    end: () => pass((consumer) => consumer.end()),
    fail: (error) => pass((consumer) => consumer.fail(error)),
    attach: (consumer) => {
      target = consumer;
      for (const step of early) step(consumer);
      early = [];
    },
  };
}

/**
 * Sends a call to an upstream; resolves with the head of the answer. Rejects with a SendError when there is none.
 * Callbacks instead of streams, because a relayed chunk then costs no stream machinery.
 */
export function send(pool: Pool, { path, headers, body, signal }: UpstreamRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const incoming = createBody();
    let isAnswered = false;
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: (controller) => {
        const abort = (): void => {
          signal.isAborted = true;
          controller.abort(new Error("the caller went away"));
        };
        if (signal.isAborted) abort();
        else signal.abort = abort;
      },
      onResponseStart: (controller, status, responseHeaders) => {
        if (status < 200) return;
        isAnswered = true;
        resolve({
          status,
          headers: responseHeaders,
          consume: incoming.attach,
          pause: () => controller.pause(),
          resume: () => controller.resume(),
          abort: () => controller.abort(new Error("the answer is not wanted any more")),
        });
      },
      onResponseData: (_controller, chunk) => incoming.data(chunk),
      onResponseEnd: () => incoming.end(),
      onResponseError: (_controller, error) => {
        if (isAnswered) incoming.fail(error);
        else reject(new SendError(error));
      },
    };
    pool.dispatch({ method: "POST", path, headers, body }, handler);
  });
}
