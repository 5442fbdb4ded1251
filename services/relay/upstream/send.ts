import { errors, type Dispatcher } from "undici";
import type { EndCause } from "#proto/usage/v1/usage_pb.ts";
import { beginSending, largeBodyBytes } from "../http/body-memory.ts";
import type { FailureName } from "../failures.ts";
import { Flow, type Consumer } from "./flow.ts";

/** The head of an upstream's answer and the handles of its body, which are methods: none stands alone. */
export type Answer = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** Starts the flow; what came before is given at once. */
  consume(consumer: Consumer): void;
  pause(): void;
  resume(): void;
  abort(): void;
};

/** An answer over HTTP, of which one may see how it begins. */
export type SentAnswer = Answer & Pick<Flow, "peek">;

export type UpstreamRequest = {
  origin: string;
  path: string;
  headers: string[];
  /** Left out: a GET without one. */
  body?: Buffer | undefined;
  signal: SendSignal;
  /** From sending to the end of the answer. */
  totalTimeoutMs: number;
  /** Called once, when nothing more will come of the request. */
  onOver: () => void;
};

/** Heads of status 1xx before the answer's own: none of an API's sends more than one. */
const maxEarlyHeads = 16;

/** Lets whoever started a call end it, also before a connection was free for it. */
export type SendSignal = {
  isAborted: boolean;
  abort: () => void;
  /** Why the call was ended before its answer flowed; undefined: it was not. */
  cutCause: EndCause | undefined;
  /** Whether the upstream that was asked last may bill the call: it has the whole request and has not refused it. */
  isBillable: boolean;
};

export function createSendSignal(): SendSignal {
  const signal: SendSignal = {
    isAborted: false,
    abort: () => {
      signal.isAborted = true;
    },
    cutCause: undefined,
    isBillable: false,
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
 * A request under way: undici tells it of the answer, and it is the answer for whoever consumes that. One object with
 * methods, because as a dozen closures it was a tenth of what a call leaves to the collector.
 */
class Exchange extends Flow implements Answer, Dispatcher.DispatchHandler {
  status = 0;
  headers: Answer["headers"] = {};
  private controller: Dispatcher.DispatchController | undefined;
  private timer: NodeJS.Timeout | undefined;
  private earlyHeads = 0;
  private readonly request: UpstreamRequest;
  private readonly resolve: (answer: SentAnswer) => void;
  private readonly reject: (error: SendError) => void;

  constructor(request: UpstreamRequest, resolve: (answer: SentAnswer) => void, reject: (error: SendError) => void) {
    super();
    this.request = request;
    this.resolve = resolve;
    this.reject = reject;
  }

  /** Called when there is a connection, right before the first byte goes out. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { signal, totalTimeoutMs } = this.request;
    signal.isBillable = false;
    const abort = (): void => {
      signal.isAborted = true;
      controller.abort(new Error("the caller went away"));
    };
    if (signal.isAborted) return abort();
    this.controller = controller;
    signal.abort = abort;
    this.timer = setTimeout(Exchange.timeOut, totalTimeoutMs, this);
  }

  onRequestSent(): void {
    if (!this.isAnswered()) this.request.signal.isBillable = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Answer["headers"]): void {
    if (status < 200) {
      this.earlyHeads += 1;
      if (this.earlyHeads > maxEarlyHeads) controller.abort(new Error("the upstream sends heads without an end"));
      return;
    }
    // A stream may stay open for long, and nobody asks for these again.
    this.request.headers = [];
    this.request.body = undefined;
    controller.rawHeaders = null;
    this.status = status;
    this.headers = headers;
    this.request.signal.isBillable = status === 200;
    this.resolve(this);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.give(chunk);
  }

  onResponseEnd(): void {
    this.over();
    this.finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.over();
    if (!this.isAnswered()) return this.reject(new SendError(error, !this.controller));
    this.break(error);
  }

  pause(): void {
    this.controller?.pause();
  }

  resume(): void {
    this.controller?.resume();
  }

  abort(): void {
    this.controller?.abort(new Error("the answer is not wanted any more"));
  }

  private isAnswered(): boolean {
    return this.status > 0;
  }

  private over(): void {
    clearTimeout(this.timer);
    this.request.onOver();
  }

  private static timeOut(this: void, exchange: Exchange): void {
    const TimeoutError = exchange.isAnswered() ? errors.BodyTimeoutError : errors.HeadersTimeoutError;
    const { totalTimeoutMs } = exchange.request;
    exchange.controller?.abort(new TimeoutError(`the answer took more than ${totalTimeoutMs} ms in all`));
  }
}

/**
 * Sends a call to an upstream; resolves with the head of the answer. Rejects with a SendError when there is none.
 * Redirects are answers like any other. Callbacks instead of streams, because a relayed chunk then costs no stream
 * machinery.
 */
export function send(pool: Dispatcher, request: UpstreamRequest): Promise<SentAnswer> {
  const { origin, path, headers, body } = request;
  return new Promise((resolve, reject) => {
    const exchange = new Exchange(request, resolve, reject);
    if (!body) pool.dispatch({ origin, path, headers, method: "GET" }, exchange);
    else if (body.length < largeBodyBytes) pool.dispatch({ origin, path, headers, method: "POST", body }, exchange);
    else {
      const sized = [...headers, "content-length", `${body.length}`];
      pool.dispatch({ origin, path, headers: sized, method: "POST", body: beginSending(body) }, exchange);
    }
  });
}
