import { once } from "node:events";
import {
  create,
  type DescMethod,
  type DescService,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import type * as grpc from "@grpc/grpc-js";
import { ServiceError, toServiceError } from "../process/errors.ts";
import { grpcService, statusOf } from "./grpc.ts";
import type { Logger } from "../process/log.ts";

type Methods<S extends DescService> = S["method"];
type Streaming<M extends Record<string, DescMethod>> = {
  [K in keyof M as M[K]["methodKind"] extends "server_streaming" ? K : never]: M[K];
};

/**
 * What a service implements per method that answers with a stream. The next response is asked for when the one before
 * has found room on the way to the caller. `gone` fires when the caller is no longer there.
 */
export type ServerStreamHandlers<S extends DescService> = {
  [K in keyof Streaming<Methods<S>>]: (
    request: MessageShape<Methods<S>[K]["input"]>,
    gone: AbortSignal,
  ) => AsyncIterable<MessageInitShape<Methods<S>[K]["output"]>>;
};

/**
 * A connected service: a function per method that answers with a stream. Leaving the loop ends the call, and so does
 * `gone` even while nothing comes.
 */
export type StreamingClient<S extends DescService> = {
  [K in keyof Streaming<Methods<S>>]: (
    request: MessageInitShape<Methods<S>[K]["input"]>,
    gone?: AbortSignal,
  ) => AsyncIterable<MessageShape<Methods<S>[K]["output"]>>;
};

type Responses = AsyncIterable<Record<string, unknown>>;
type ServerCall = grpc.ServerWritableStream<object, object>;

const streamingMethods = (service: DescService): DescMethod[] =>
  service.methods.filter((method) => method.methodKind === "server_streaming");

/** Wraps functions that yield responses as grpc-js handlers; errors become their row of the error table. */
export function serverStreamHandlers<S extends DescService>(
  service: S,
  handlers: ServerStreamHandlers<S>,
  log: Logger,
): grpc.UntypedServiceImplementation {
  const byName = handlers as unknown as Record<string, (request: object, gone: AbortSignal) => Responses>;
  const wrap = (method: DescMethod) => {
    const handler = byName[method.localName];
    if (!handler) throw new Error(`${service.typeName}/${method.name} has no handler`);
    return (call: ServerCall): void => {
      const gone = new AbortController();
      call.on("cancelled", () => gone.abort());
      const sending = send(call, { responses: handler(call.request, gone.signal), method, gone: gone.signal });
      sending.then(
        () => call.end(),
        (thrown: unknown) => {
          if (!gone.signal.aborted) call.emit("error", statusOf(thrown, method, log));
        },
      );
    };
  };
  return Object.fromEntries(streamingMethods(service).map((method) => [method.localName, wrap(method)]));
}

type SendContext = { responses: Responses; method: DescMethod; gone: AbortSignal };

async function send(call: ServerCall, { responses, method, gone }: SendContext): Promise<void> {
  for await (const response of responses) {
    if (gone.aborted) return;
    const hasRoom = call.write(create(method.output, response));
    if (!hasRoom) await once(call, "drain", { signal: gone });
  }
}

/**
 * Makes the calls of a service that answer with a stream, on an open channel. A stream that says nothing for `idleMs`
 * while it is waited for fails as `unavailable`. Failures are ServiceErrors.
 */
export function streamingClient<S extends DescService>(
  service: S,
  client: grpc.Client,
  idleMs: number,
): StreamingClient<S> {
  const definition = grpcService(service);
  const callOf = (method: DescMethod) => {
    const { path, requestSerialize, responseDeserialize } = definition[method.localName] as grpc.MethodDefinition<
      object,
      object
    >;
    return (request: Record<string, unknown>, gone?: AbortSignal): AsyncIterable<object> => {
      const message = create(method.input, request);
      const start = () => client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, message);
      return read(start, idleMs, gone);
    };
  };
  const calls = streamingMethods(service).map((method) => [method.localName, callOf(method)] as const);
  return Object.fromEntries(calls) as unknown as StreamingClient<S>;
}

async function* read(
  start: () => grpc.ClientReadableStream<object>,
  idleMs: number,
  gone?: AbortSignal,
): AsyncGenerator<object> {
  const call = start();
  const cancel = (): void => call.cancel();
  gone?.addEventListener("abort", cancel);
  if (gone?.aborted) cancel();
  // A call that is cancelled below reports that, too, when nobody reads it any more.
  call.on("error", () => undefined);
  const responses = call[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await withinIdle(call, responses, idleMs);
      if (next.done) return;
      yield next.value;
    }
  } catch (thrown) {
    throw toServiceError(thrown);
  } finally {
    gone?.removeEventListener("abort", cancel);
    cancel();
  }
}

async function withinIdle(
  call: grpc.ClientReadableStream<object>,
  responses: AsyncIterator<object>,
  idleMs: number,
): Promise<IteratorResult<object>> {
  const silent = new ServiceError("unavailable", `nothing came for ${idleMs / 1_000} s`);
  const timer = setTimeout(() => call.destroy(silent), idleMs);
  try {
    return await responses.next();
  } finally {
    clearTimeout(timer);
  }
}
