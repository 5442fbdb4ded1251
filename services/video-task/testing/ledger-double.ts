import { fromBinary } from "@bufbuild/protobuf";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { MsgHdrs, NatsConnection } from "@nats-io/transport-node";
import { BillingService, LineKind } from "#proto/billing/v1/billing_pb.ts";
import { UsageBatchSchema } from "#proto/usage/v1/usage_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import {
  connectGrpc,
  serveGrpc,
  unaryClient,
  unaryHandlers,
  type UnaryClient,
  type UnaryHandlers,
} from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { refusing } from "#shared/testing/refusing.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";

type Line = { kind: LineKind; accountId: string; rid: string; amountNanos: bigint; reference: string };

/** A ledger that keeps billing's rules about charges and refunds of calls, behind real gRPC. */
export type LedgerDouble = AsyncDisposable & {
  client: UnaryClient<typeof BillingService>;
  lines: Line[];
  isAway: boolean;
  /** Charges of videos in the order of their booking, of which ten minutes have passed. */
  videoCharges: { record: Uint8Array; refundedNanos: bigint }[];
  /** Refunds that were asked for, refused ones too. */
  asked: string[];
  /** Books what the usage stream holds, as billing does: once for each rid. */
  consume: (connection: NatsConnection) => Promise<void>;
};

const refuse = (words: string): never => {
  throw new ServiceError("failed_precondition", words);
};

export async function startLedgerDouble(): Promise<LedgerDouble> {
  const handlers: UnaryHandlers<typeof BillingService> = {
    ...refusing(BillingService),
    listLedgerLines: async ({ rid, accountId }) => {
      if (ledger.isAway) throw new ServiceError("unavailable", "away");
      return { lines: ledger.lines.filter((line) => line.rid === rid && line.accountId === accountId) };
    },
    listVideoCharges: async ({ afterLineId, limit }) => {
      if (ledger.isAway) throw new ServiceError("unavailable", "away");
      const all = ledger.videoCharges;
      const from = afterLineId === "" ? all.length : Number(afterLineId);
      const until = Math.min(all.length, from + limit);
      return { charges: all.slice(from, until), untilLineId: String(until), hasMore: until < all.length };
    },
    refund: async (request) => {
      if (ledger.isAway) throw new ServiceError("unavailable", "away");
      ledger.asked.push(request.rid);
      const ids = [`video:${request.rid}`, `video-lost:${request.rid}`];
      if (!ids.includes(request.refundId)) throw new ServiceError("invalid_argument", "no refund of a video");
      return {
        line: ledger.lines.find(({ reference }) => reference === request.refundId) ?? giveBack(ledger, request),
      };
    },
  };
  const log = createLog("test", "silent");
  const listen = { host: "127.0.0.1", port: 0, drainMs: 100 };
  const server = await serveGrpc([[BillingService, unaryHandlers(BillingService, handlers, log)]], listen);
  const channel = connectGrpc(`127.0.0.1:${server.port}`);
  const ledger: LedgerDouble = {
    client: unaryClient(BillingService, channel, 5_000),
    lines: [],
    isAway: false,
    videoCharges: [],
    asked: [],
    consume: (connection) => consume(ledger, connection),
    [Symbol.asyncDispose]: async () => {
      channel[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
  return ledger;
}

type Refund = { accountId: string; rid: string; amountNanos: bigint; refundId: string };

function giveBack({ lines }: LedgerDouble, { accountId, rid, amountNanos, refundId }: Refund): Line {
  const sumOf = (kind: LineKind): bigint =>
    lines.filter((line) => line.rid === rid && line.kind === kind).reduce((sum, line) => sum + line.amountNanos, 0n);
  const leftNanos = -sumOf(LineKind.CHARGE) - sumOf(LineKind.REFUND);
  if (leftNanos <= 0n) refuse("nothing is left to refund");
  if (amountNanos > leftNanos) refuse("more than what is left to refund");
  const line = { kind: LineKind.REFUND, accountId, rid, amountNanos: amountNanos || leftNanos, reference: refundId };
  lines.push(line);
  return line;
}

async function consume({ lines }: LedgerDouble, connection: NatsConnection): Promise<void> {
  for (const { data } of await readStream(connection)) {
    for (const { rid, accountId, costNanos } of fromBinary(UsageBatchSchema, data).events) {
      if (lines.some((line) => line.rid === rid && line.kind === LineKind.CHARGE)) continue;
      lines.push({ kind: LineKind.CHARGE, accountId, rid, amountNanos: -costNanos, reference: "" });
    }
  }
}

/** Declares the usage stream, as billing does. */
export async function declareUsageStream(connection: NatsConnection): Promise<void> {
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: usageStream, subjects: ["usage.v1.>"] });
}

type Stored = { id: string | undefined; header: MsgHdrs; data: Uint8Array };

/** Every message on the usage stream, with its id. */
export async function readStream(connection: NatsConnection): Promise<Stored[]> {
  const stream = await jetstream(connection).streams.get(usageStream);
  const { state } = await stream.info();
  const found = [];
  for (let seq = state.first_seq; state.messages > 0 && seq <= state.last_seq; seq += 1) {
    const stored = await stream.getMessage({ seq });
    if (stored) found.push({ id: stored.header.get("Nats-Msg-Id"), header: stored.header, data: stored.data });
  }
  return found;
}
