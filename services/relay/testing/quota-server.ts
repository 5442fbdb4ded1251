import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ServerDuplexStream, UntypedServiceImplementation } from "@grpc/grpc-js";
import {
  AuthQuotaService,
  SessionResponseSchema,
  Verdict,
  type Operation,
  type ResultSchema,
  type SessionRequest,
  type SessionResponse,
} from "#proto/authquota/v1/authquota_pb.ts";
import { serveGrpc } from "#shared/grpc/grpc.ts";

// grpc-js may not be imported here but for its types.
const unavailableStatus = 14;

type Result = MessageInitShape<typeof ResultSchema>;

type ServerOptions = {
  generation?: string;
  isMaintenance?: boolean;
  hasLookupMany?: boolean;
  timeMs?: bigint;
  isStopping?: boolean;
};

/** One stream of a relay, as the server sees it. */
export type ServerStream = {
  answer: (batch: bigint, results: Result[], told?: ServerOptions) => void;
  break: () => void;
  /** Whether the relay has ended it in good order. */
  isLeft: boolean;
};

/** Decides what becomes of a batch; undefined leaves it unanswered. */
export type Script = (request: SessionRequest, stream: ServerStream) => Result[] | undefined;

/** Answers each operation on a call with a yes that repeats its rid as the account, to tell the answers apart. */
export const echo: Script = ({ operations }) => operations.map(echoOf);

export function echoOf({ operation }: Operation): Result {
  const rid = operation.value && "rid" in operation.value ? operation.value.rid : "";
  return { verdict: Verdict.OK, accountId: rid };
}

/** A real gRPC server in the place of auth-quota, which does what the test says and keeps what it was sent. */
export type QuotaServer = AsyncDisposable & {
  port: number;
  /** Batches with operations, over all streams. */
  batches: SessionRequest[];
  heartbeats: SessionRequest[];
  streams: ServerStream[];
};

/** Serves on a port (0: any). Disposal cuts all streams at once, as the death of the process would. */
export async function startQuotaServer(script: Script, port = 0): Promise<QuotaServer> {
  const batches: SessionRequest[] = [];
  const heartbeats: SessionRequest[] = [];
  const streams: ServerStream[] = [];
  const session = (raw: ServerDuplexStream<SessionRequest, SessionResponse>): void => {
    const stream: ServerStream = {
      answer: (batch, results, told = {}) => raw.write(create(SessionResponseSchema, { batch, results, ...told })),
      break: () => void raw.emit("error", { code: unavailableStatus, details: "broken by the test" }),
      isLeft: false,
    };
    streams.push(stream);
    raw.on("error", () => undefined);
    raw.on("end", () => {
      stream.isLeft = true;
      raw.end();
    });
    raw.on("data", (request: SessionRequest) => {
      (request.operations.length > 0 ? batches : heartbeats).push(request);
      const results = script(request, stream);
      if (results) stream.answer(request.batch, results);
    });
  };
  const handlers = { session } as unknown as UntypedServiceImplementation;
  const listener = await serveGrpc([[AuthQuotaService, handlers]], { host: "127.0.0.1", port, drainMs: 0 });
  return {
    port: listener.port,
    batches,
    heartbeats,
    streams,
    [Symbol.asyncDispose]: () => listener[Symbol.asyncDispose](),
  };
}
