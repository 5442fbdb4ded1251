import { fromBinary } from "@bufbuild/protobuf";
import { connect } from "@nats-io/transport-node";
import { BillingService, LineKind } from "#proto/billing/v1/billing_pb.ts";
import { UsageBatchSchema } from "#proto/usage/v1/usage_pb.ts";
import { serveGrpc, unaryHandlers, type UnaryHandlers } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import { refusing } from "#shared/testing/refusing.ts";
import { usageSubject } from "#shared/stores/usage-stream.ts";

/** Stands in for billing: has booked what was published, and gives back what it is asked for. */
export type ScriptedLedger = AsyncDisposable & {
  address: string;
  /** Costs in nano-USD of the charges that were published, by rid; copies of one are one. */
  charged: Map<string, bigint>;
  /** Rids of the refunds that were asked for, by refund_id. */
  refunded: Map<string, string>;
  /** What billing would not have booked as it came, in words. */
  wrong: string[];
};

/** Serves it over gRPC and listens to the usage stream. */
export async function startScriptedLedger(natsUrl: string): Promise<ScriptedLedger> {
  await using resources = new AsyncDisposableStack();
  const charged = new Map<string, bigint>();
  const refunded = new Map<string, string>();
  const wrong: string[] = [];
  const nats = await connect({ servers: natsUrl });
  resources.defer(() => nats.close());
  nats.subscribe(usageSubject, {
    callback: (_error, { data }) => {
      for (const { rid, costNanos } of fromBinary(UsageBatchSchema, data).events) {
        if ((charged.get(rid) ?? costNanos) !== costNanos) wrong.push(`${rid} was charged twice, differently`);
        charged.set(rid, costNanos);
      }
    },
  });
  await nats.flush();
  const handlers: UnaryHandlers<typeof BillingService> = {
    ...refusing(BillingService),
    listLedgerLines: ({ rid }) =>
      Promise.resolve({ lines: charged.has(rid) ? [{ kind: LineKind.CHARGE, rid, lineId: rid }] : [] }),
    refund: ({ rid, refundId }) => {
      if (!charged.has(rid)) wrong.push(`${rid} was refunded before it was charged`);
      refunded.set(refundId, rid);
      return Promise.resolve({ line: { kind: LineKind.REFUND, rid, amountNanos: charged.get(rid) ?? 0n } });
    },
  };
  const calls = unaryHandlers(BillingService, handlers, createLog("bench", "warn"));
  const server = await serveGrpc([[BillingService, calls]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  resources.use(server);
  const owned = resources.move();
  const address = `127.0.0.1:${server.port}`;
  return { address, charged, refunded, wrong, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
