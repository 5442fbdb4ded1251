import { setImmediate as turn } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import { errorTable, ServiceError, toServiceError } from "../process/errors.ts";
import { plainGrpc, type GrpcCredentials } from "./credentials.ts";
import { certificateNameOf, identitiesOf, type Identity } from "./identity.ts";
import { followConnection } from "./patience.ts";
import type { Logger } from "../process/log.ts";
import { answerTraced, traceCall } from "./trace.ts";

const maxMessageBytes = 16 * 1024 * 1024;
const maxStreams = 4_096;

const channelOptions = {
  "grpc.max_receive_message_length": maxMessageBytes,
  "grpc.max_send_message_length": maxMessageBytes,
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 500,
  // As often as names of services change at most; replicas that come are found when a connection ends.
  "grpc.dns_min_time_between_resolutions_ms": 5_000,
  // Nobody puts settings of gRPC into the DNS here.
  "grpc.service_config_disable_resolution": 1,
  // Without it every stream of a process lands on the first address of a headless service.
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};

type Methods<S extends DescService> = S["method"];
type Unary<M extends Record<string, DescMethod>> = {
  [K in keyof M as M[K]["methodKind"] extends "unary" ? K : never]: M[K];
};

/** What a service implements: a function per unary method; streaming methods are given apart (`grpc-stream.ts`). */
export type UnaryHandlers<S extends DescService> = {
  [K in keyof Unary<Methods<S>>]: (
    request: MessageShape<Methods<S>[K]["input"]>,
    /** Who calls, by its certificate; nobody without TLS. */
    identities?: readonly Identity[],
  ) => Promise<MessageInitShape<Methods<S>[K]["output"]>>;
};

/** A connected service: a function per unary method. Failures are ServiceErrors. */
export type UnaryClient<S extends DescService> = {
  [K in keyof Unary<Methods<S>>]: (
    request: MessageInitShape<Methods<S>[K]["input"]>,
  ) => Promise<MessageShape<Methods<S>[K]["output"]>>;
};

/** Describes a generated service to grpc-js. */
export function grpcService(service: DescService): grpc.ServiceDefinition {
  const encode = (schema: DescMessage) => (message: MessageShape<DescMessage>) =>
    Buffer.from(toBinary(schema, message));
  const decode = (schema: DescMessage) => (bytes: Buffer) => fromBinary(schema, bytes);
  const describe = (method: DescMethod): [string, grpc.MethodDefinition<object, object>] => [
    method.localName,
    {
      path: `/${service.typeName}/${method.name}`,
      requestStream: method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming",
      responseStream: method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming",
      requestSerialize: encode(method.input) as grpc.serialize<object>,
      requestDeserialize: decode(method.input),
      responseSerialize: encode(method.output) as grpc.serialize<object>,
      responseDeserialize: decode(method.output),
    },
  ];
  return Object.fromEntries(service.methods.map(describe));
}

/** Wraps unary functions as grpc-js handlers; errors become their row of the error table, causes go to the log. */
export function unaryHandlers<S extends DescService>(
  service: S,
  handlers: UnaryHandlers<S>,
  log: Logger,
): grpc.UntypedServiceImplementation {
  type Handler = (request: object, identities: readonly Identity[]) => Promise<Record<string, unknown>>;
  const byName = handlers as unknown as Record<string, Handler>;
  const wrap = (method: DescMethod) => {
    const handler = byName[method.localName];
    if (!handler) throw new Error(`${service.typeName}/${method.name} has no handler`);
    const path = `/${service.typeName}/${method.name}`;
    return (call: grpc.ServerUnaryCall<object, object>, reply: grpc.sendUnaryData<object>): void => {
      answerTraced(path, call.metadata, () => handler(call.request, callerOf(call))).then(
        (response) => reply(null, create(method.output, response)),
        (thrown: unknown) => reply(statusOf(thrown, method, log)),
      );
    };
  };
  const unary = service.methods.filter((method) => method.methodKind === "unary");
  return Object.fromEntries(unary.map((method) => [method.localName, wrap(method)]));
}

const callerOf = (call: grpc.ServerUnaryCall<object, object>): Identity[] => {
  const certificate = call.getAuthContext().sslPeerCertificate;
  return certificate ? identitiesOf(certificate) : [];
};

/** The status that a caller gets for what a handler has thrown; causes that are not the caller's go to the log. */
export function statusOf(thrown: unknown, method: DescMethod, log: Logger): { code: number; details: string } {
  const error = toServiceError(thrown);
  if (error.code === "internal" || error.code === "unavailable") {
    log.error({ err: error.cause ?? error, method: method.name }, "call failed");
  }
  return { code: errorTable[error.code].grpcStatus, details: error.message };
}

const maxTriesMore = 5;

/**
 * Whether no server has processed a call. Either it was sent while the server closed the connection: gRPC retries it
 * once by itself, possibly before it knows of the close. Or it found no connection, as a retry does while a new
 * replica is not yet resolved. A service that passes on such an error of another one responds with headers.
 */
const isUnseen = ({ code, details, metadata }: Partial<grpc.ServiceError>): boolean =>
  code === grpc.status.UNAVAILABLE &&
  (details === "Stream refused by server" || details?.includes("No connection established") === true) &&
  Object.keys(metadata?.getMap() ?? {}).length === 0;

/** Whether a call's time was over before it had a connection to go out on. */
const isUnconnected = ({ code, details }: Partial<grpc.ServiceError>): boolean =>
  code === grpc.status.DEADLINE_EXCEEDED && details?.includes("Waiting for LB pick") === true;

/** A unary call; `deadline` is for all of its tries together, in milliseconds since 1970. */
type Call = {
  client: grpc.Client;
  method: grpc.MethodDefinition<object, object>;
  message: object;
  metadata: grpc.Metadata;
  deadline: number;
};

const sendOnce = ({ client, method, message, metadata, deadline }: Call): Promise<object> =>
  new Promise((resolve, reject) => {
    const { path, requestSerialize: write, responseDeserialize: read } = method;
    client.makeUnaryRequest(path, write, read, message, metadata, { deadline }, (error, response) => {
      if (error) reject(error);
      else if (response) resolve(response);
      else reject(new ServiceError("internal", "empty answer"));
    });
  });

/** `connection` waits for a connection where it is worth it. */
async function send(call: Call, connection: ReturnType<typeof followConnection>): Promise<object> {
  let failure: Error | undefined;
  for (let triesLeft = maxTriesMore; ; triesLeft -= 1) {
    const connected = connection(call.deadline);
    // Calls go out in the order in which they are made.
    if (connected) await connected;
    try {
      return await sendOnce(call);
    } catch (error) {
      // Why there is no connection says more than that the time for one is over.
      if (failure && isUnconnected(error as Partial<grpc.ServiceError>)) throw failure;
      if (triesLeft === 0 || !isUnseen(error as Partial<grpc.ServiceError>)) throw error;
      failure = error as Error;
    }
    await turn();
  }
}

/** Functions that write a method's requests in the place of its schema. */
export type Encoders<S extends DescService> = {
  [K in keyof Unary<Methods<S>>]?: (request: MessageInitShape<Methods<S>[K]["input"]>) => Buffer;
};

/** Makes the unary calls of a service on an open channel. `timeoutMs` bounds each call. */
export function unaryClient<S extends DescService>(
  service: S,
  client: grpc.Client,
  timeoutMs: number,
  encoders: Encoders<S> = {},
): UnaryClient<S> {
  const definition = grpcService(service);
  const connection = followConnection(client);
  const callOf = (desc: DescMethod) => {
    const described = definition[desc.localName] as grpc.MethodDefinition<object, object>;
    const encode = (encoders as Record<string, grpc.serialize<object> | undefined>)[desc.localName];
    const method = encode ? { ...described, requestSerialize: encode } : described;
    return async (request: Record<string, unknown>): Promise<object> => {
      const message = encode ? request : create(desc.input, request);
      const traced = traceCall(method.path);
      const deadline = Date.now() + timeoutMs;
      try {
        const response = await send({ client, method, message, metadata: traced.metadata, deadline }, connection);
        traced.end();
        return response;
      } catch (error) {
        traced.end(error);
        throw toServiceError(error);
      }
    };
  };
  const unary = service.methods.filter((method) => method.methodKind === "unary");
  return Object.fromEntries(unary.map((method) => [method.localName, callOf(method)])) as unknown as UnaryClient<S>;
}

/**
 * Opens a channel to `host:port` or a `dns:///` target, over all of whose addresses calls are spread; closed by its
 * disposer. With TLS the server must show that it is `peer`, wherever it runs.
 */
export function connectGrpc(
  address: string,
  { client: credentials }: Pick<GrpcCredentials, "client"> = plainGrpc,
  peer?: Identity,
): grpc.Client & Disposable {
  const named = peer === undefined ? {} : { "grpc.ssl_target_name_override": certificateNameOf(peer) };
  const client = new grpc.Client(address, credentials, { ...channelOptions, ...named });
  return Object.assign(client, { [Symbol.dispose]: () => client.close() });
}

/** A gRPC server that listens. */
export type GrpcListener = AsyncDisposable & {
  port: number;
  /** Has clients go elsewhere with what they begin from now on; what is under way goes on. */
  turnAway: () => void;
};

export type GrpcListenOptions = {
  host: string;
  port: number;
  drainMs: number;
  credentials?: Pick<GrpcCredentials, "server"> | undefined;
  /** What looks at every call. */
  interceptors?: grpc.ServerInterceptor[] | undefined;
};

/**
 * Serves services on a port (0: any free one), some methods with codecs of their own. Disposal lets running unary
 * calls end, for at most `drainMs`.
 */
export async function serveGrpc(
  services: [DescService, grpc.UntypedServiceImplementation, grpc.ServiceDefinition?][],
  { host, port, drainMs, credentials = plainGrpc, interceptors = [] }: GrpcListenOptions,
): Promise<GrpcListener> {
  const server = new grpc.Server({
    ...channelOptions,
    interceptors,
    // Clients reconnect now and then, so that new replicas get their share; calls under way may take their time.
    "grpc.max_connection_age_ms": 5 * 60_000,
    "grpc.max_connection_age_grace_ms": 30 * 60_000,
    // More of one connection wait at the client; without it a neighbour opens streams until memory ends.
    "grpc.max_concurrent_streams": maxStreams,
    // Allows the clients' 20 s keepalive; the default of 5 minutes answers it with GOAWAY.
    "grpc.http2.min_ping_interval_without_data_ms": 10_000,
  });
  for (const [service, handlers, own] of services) {
    server.addService({ ...grpcService(service), ...own }, handlers);
  }
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${host}:${port}`, credentials.server, (error, boundPort) =>
      error ? reject(error) : resolve(boundPort),
    );
  });
  const ended = Promise.withResolvers<void>();
  let isTurningAway = false;
  const turnAway = (): void => {
    if (!isTurningAway) server.tryShutdown(() => ended.resolve());
    isTurningAway = true;
  };
  return {
    port: bound,
    turnAway,
    [Symbol.asyncDispose]: async () => {
      const force = setTimeout(() => server.forceShutdown(), drainMs);
      turnAway();
      await ended.promise;
      clearTimeout(force);
    },
  };
}
