import { errors, type Dispatcher } from "undici";
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

export type UpstreamRequest = {
  origin: string;
  path: string;
  headers: string[];
  /** Left out: a GET without one. */
  body?: Buffer;
  signal: SendSignal;
  /** From sending to the end of the answer. */
  totalTimeoutMs: number;
  /** Called once, when nothing more will come of the request. */
  onOver: () => void;
};

/** Lets whoever started a call end it, also before a connection was free for it. */
export type SendSignal = {
  isAborted: boolean;
  abort: () => void;
  /** Whether it is the relay that ends the call, and not its caller. */
  isCut: boolean;
};

export function createSendSignal(): SendSignal {
  const signal: SendSignal = {
    isAborted: false,
    abort: () => {
      signal.isAborted = true;
    },
    isCut: false,
  };
  return signal;
}

/** An error of the connection or of the waiting, not an answer. */
export class SendError extends Error {
  readonly failureName: FailureName;
  /** Whether the upstream certainly never saw the request, so that another may be asked. */
  readonly isUnsent: boolean;

  constructor(cause: Error, isUnsent = false) {
    const isTimeout = cause instanceof errors.HeadersTimeoutError || cause instanceof errors.BodyTimeoutError;
    super(cause.message, { cause });
    this.failureName = isTimeout && !isUnsent ? "upstream_timeout" : "upstream_unreachable";
    this.isUnsent = isUnsent;
  }
}

/**
 * Holds back what arrives before somebody consumes it: the head resolves a promise, the body may follow in the same
 * turn.
 */
function createBody(): Consumer & { attach: (consumer: Consumer) => void } {
  let target: Consumer | undefined;
  let early: Buffer[] = [];
  let last: ((consumer: Consumer) => void) | undefined;
  const close = (step: (consumer: Consumer) => void): void => {
    if (target) step(target);
    else last ??= step;
  };
  return {
    data: (chunk) => {
      if (target) target.data(chunk);
      else early.push(chunk);
    },
    end: () => close((consumer) => consumer.end()),
    fail: (error) => close((consumer) => consumer.fail(error)),
    attach: (consumer) => {
      target = consumer;
      for (const chunk of early) consumer.data(chunk);
      early = [];
      last?.(consumer);
    },
  };
}

/**
 * Sends a call to an upstream; resolves with the head of the answer. Rejects with a SendError when there is none.
 * Redirects are answers like any other. Callbacks instead of streams, because a relayed chunk then costs no stream
 * machinery.
 */
export function send(pool: Dispatcher, request: UpstreamRequest): Promise<Answer> {
  const { origin, path, headers, body, signal, totalTimeoutMs } = request;
  return new Promise((resolve, reject) => {
    const incoming = createBody();
    let isStarted = false;
    let isAnswered = false;
    let timer: NodeJS.Timeout | undefined;
    const over = (): void => {
      clearTimeout(timer);
      request.onOver();
    };
    const handler: Dispatcher.DispatchHandler = {
      // Called when there is a connection, right before the first byte goes out.
      onRequestStart: (controller) => {
        const abort = (): void => {
          signal.isAborted = true;
          controller.abort(new Error("the caller went away"));
        };
        if (signal.isAborted) return abort();
        isStarted = true;
        signal.abort = abort;
        timer = setTimeout(() => {
          const TimeoutError = isAnswered ? errors.BodyTimeoutError : errors.HeadersTimeoutError;
          controller.abort(new TimeoutError(`the answer took more than ${totalTimeoutMs} ms in all`));
        }, totalTimeoutMs);
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
      onResponseEnd: () => {
        over();
        incoming.end();
      },
      onResponseError: (_controller, error) => {
        over();
        if (isAnswered) incoming.fail(error);
        else reject(new SendError(error, !isStarted));
      },
    };
    const sent = body ? ({ method: "POST", body } as const) : ({ method: "GET" } as const);
    pool.dispatch({ origin, path, headers, ...sent }, handler);
  });
}
