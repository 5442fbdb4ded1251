import { BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { serveGrpc, unaryHandlers } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { refusing } from "#shared/testing/refusing.ts";

type Sum = { nanos: bigint; version: bigint };
type AccountSum = Sum & { spentNanos?: bigint };

/** A billing service that serves nothing but GetFunds and GetProgress, from memory, over real gRPC. */
export type StubBilling = AsyncDisposable & {
  address: string;
  /** Balances by account and spending by key; what is not here has 0 at version 0. */
  balances: Map<string, AccountSum>;
  spending: Map<string, Sum>;
  /** How far the usage stream is booked. */
  progress: { lastSequence: bigint; bookedSequence: bigint };
  /** Epoch of the ledger. */
  ledgerEpoch: number;
  /** While true, it fails as unavailable. */
  isDown: boolean;
  /** Runs after GetFunds has read its answer and before it sends it. */
  beforeAnswer: () => Promise<void>;
  calls: number;
};

export async function startStubBilling(log: Logger): Promise<StubBilling> {
  const state = {
    balances: new Map<string, AccountSum>(),
    spending: new Map<string, Sum>(),
    progress: { lastSequence: 0n, bookedSequence: 0n },
    ledgerEpoch: 1,
    isDown: false,
    beforeAnswer: async (): Promise<void> => undefined,
    calls: 0,
  };
  const nothing: AccountSum = { nanos: 0n, version: 0n };
  const handlers = unaryHandlers(
    BillingService,
    {
      ...refusing(BillingService),
      getProgress: async () => {
        if (state.isDown) throw new ServiceError("unavailable", "billing is down");
        return { ...state.progress, ledgerEpoch: state.ledgerEpoch };
      },
      getFunds: async ({ accountIds, keyIds }) => {
        state.calls += 1;
        if (state.isDown) throw new ServiceError("unavailable", "billing is down");
        const accounts = accountIds.map((accountId) => {
          const { nanos, version, spentNanos = 0n } = state.balances.get(accountId) ?? nothing;
          return { accountId, balanceNanos: nanos, spentNanos, version };
        });
        const keys = keyIds.map((keyId) => {
          const { nanos, version } = state.spending.get(keyId) ?? nothing;
          return { keyId, spentNanos: nanos, version };
        });
        await state.beforeAnswer();
        return { accounts, keys };
      },
    },
    log,
  );
  const server = await serveGrpc([[BillingService, handlers]], { host: "127.0.0.1", port: 0, drainMs: 100 });
  return Object.assign(state, {
    address: `127.0.0.1:${server.port}`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  });
}
