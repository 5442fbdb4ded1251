import { Registry } from "prom-client";
import { AuthQuotaService } from "#proto/authquota/v1/authquota_pb.ts";
import { systemClock } from "#shared/process/clock.ts";
import { connectGrpc, unaryClient } from "#shared/grpc/grpc.ts";
import { createLog } from "#shared/process/log.ts";
import type { BookingDeps } from "../intake/book.ts";
import { startConsumer } from "../intake/consume.ts";
import { createHealth } from "#shared/process/health.ts";
import { createMetrics, type Metrics } from "../metrics.ts";
import { keepConnected } from "../intake/nats.ts";
import { createOutboxPass } from "../intake/outbox.ts";
import { createLedgerRepair } from "../intake/repair-ledger.ts";
import { createFundsPublisher } from "../intake/publish-funds.ts";
import { rebookFunds } from "../intake/rebook-funds.ts";
import { replayAll } from "../handlers/replay.ts";
import { isTrusted, type Proofs } from "../records/proofs.ts";
import { createLedgerDays } from "../store/days.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createBalancePusher, createNewerBalances, type BalancePusher } from "../intake/push-balances.ts";

const log = createLog("test", "silent");

/** What booking needs, on a real ledger. */
export function bookingOn(pool: Pool): BookingDeps {
  return { pool, days: createLedgerDays(pool), metrics: createMetrics(new Registry()), clock: systemClock, log };
}

/** Takes all events for proven. */
export const trusting: Proofs = () => isTrusted;

/** The consuming half of billing, inside the test's process. */
export type TestBilling = AsyncDisposable & {
  metrics: Metrics;
  pusher: BalancePusher;
  reasons: () => string[];
  outboxPass: () => Promise<void>;
  repairPass: () => Promise<void>;
  publishFunds: () => Promise<void>;
};

type BillingAddresses = { pool: Pool; natsUrl: string; authQuotaAddress: string; ackWaitMs?: number; proofs?: Proofs };

export function startBilling({
  pool,
  natsUrl,
  authQuotaAddress,
  ackWaitMs = 60_000,
  proofs = trusting,
}: BillingAddresses): TestBilling {
  const resources = new AsyncDisposableStack();
  const booking = bookingOn(pool);
  const { metrics, clock } = booking;
  const health = createHealth([]);
  const channel = resources.use(connectGrpc(authQuotaAddress));
  const authQuota = unaryClient(AuthQuotaService, channel, 5_000);
  const nats = resources.use(keepConnected(natsUrl, { health, log }));
  const newer = createNewerBalances();
  const pusher = createBalancePusher({ authQuota, metrics, log, newer });
  const stream = { replicas: 1, maxBytes: 256 * 2 ** 20, ackWaitMs };
  const replayFrom = (fromMs: number | undefined) => replayAll({ ...booking, nats, pusher, proofs }, fromMs);
  const publishFunds = createFundsPublisher({ pool, nats, replicas: 1 });
  const rebookFundsFrom = async (fromMs: number | undefined) => {
    await publishFunds();
    return await rebookFunds({ ...booking, nats }, fromMs);
  };
  const repair = createLedgerRepair({ ...booking, nats, pusher, newer, authQuota, replayFrom, rebookFundsFrom });
  resources.use(startConsumer({ ...booking, nats, pusher, proofs, health, stream, repair }));
  const outboxPass = createOutboxPass({ authQuota, pool, nats, pusher, proofs, metrics, clock, log, ageMs: 0 });
  return {
    metrics,
    pusher,
    reasons: health.reasons,
    outboxPass,
    repairPass: repair.pass,
    publishFunds,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** The value of a counter or gauge, summed over its labels. */
export async function valueOf(metric: { get: () => Promise<{ values: { value: number }[] }> }): Promise<number> {
  const { values } = await metric.get();
  return values.reduce((sum, { value }) => sum + value, 0);
}
