import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { Client, ClientDuplexStream } from "@grpc/grpc-js";
import {
  AuthQuotaService,
  SessionRequestSchema,
  type OperationSchema,
  type Result,
  type SessionRequest,
  type SessionResponse,
} from "#proto/authquota/v1/authquota_pb.ts";
import { grpcService } from "#shared/grpc/grpc.ts";

type OperationInit = NonNullable<MessageInitShape<typeof OperationSchema>["operation"]>;

/** A plain relay: one stream, batches out, results back; nothing is sent again. */
export type RelayLine = Disposable & {
  /** Sends one batch; rejects when the stream ends before it is answered. */
  send: (operations: OperationInit[]) => Promise<Result[]>;
  /** The generation that the last response named. */
  generation: () => string;
  /** What the last response told of a maintenance. */
  isMaintenance: () => boolean | undefined;
  /** The hot store's time that it told. */
  timeMs: () => bigint;
  /** Whether the server has said that it stops. */
  isStopping: () => boolean;
  /** Ends the stream in good order. */
  leave: () => void;
  /** Resolves with the status of the stream when it has ended. */
  ended: Promise<{ code: number; details: string }>;
};

export function openRelayLine(channel: Client, relaySession: string): RelayLine {
  const path = grpcService(AuthQuotaService)["session"];
  if (!path) throw new Error("the contract has no Session");
  const stream: ClientDuplexStream<SessionRequest, SessionResponse> = channel.makeBidiStreamRequest(
    path.path,
    path.requestSerialize as (request: SessionRequest) => Buffer,
    path.responseDeserialize as (bytes: Buffer) => SessionResponse,
  );
  const waiting = new Map<bigint, PromiseWithResolvers<Result[]>>();
  const ended = Promise.withResolvers<{ code: number; details: string }>();
  let batch = 0n;
  let generation = "";
  let isMaintenance: boolean | undefined;
  let timeMs = 0n;
  let isStopping = false;
  stream.on("data", (response: SessionResponse) => {
    generation = response.generation;
    isMaintenance = response.isMaintenance;
    timeMs = response.timeMs;
    ({ isStopping } = response);
    waiting.get(response.batch)?.resolve(response.results);
    waiting.delete(response.batch);
  });
  stream.on("error", () => undefined);
  stream.on("status", (status) => {
    for (const one of waiting.values()) one.reject(new Error(`stream ended: ${status.code} ${status.details}`));
    ended.resolve({ code: status.code, details: status.details });
  });
  return {
    send: (operations) => {
      batch += 1n;
      const answer = Promise.withResolvers<Result[]>();
      waiting.set(batch, answer);
      stream.write(
        create(SessionRequestSchema, {
          relaySession,
          batch,
          operations: operations.map((operation) => ({ operation })),
        }),
      );
      return answer.promise;
    },
    generation: () => generation,
    isMaintenance: () => isMaintenance,
    timeMs: () => timeMs,
    isStopping: () => isStopping,
    leave: () => stream.end(),
    ended: ended.promise,
    [Symbol.dispose]: () => stream.cancel(),
  };
}
