import { create } from "@bufbuild/protobuf";
import type { NatsConnection } from "@nats-io/transport-node";
import { Registry } from "prom-client";
import {
  GetFundsRequestSchema,
  GetFundsResponseSchema,
  GetProgressResponseSchema,
} from "#proto/billing/v1/billing_pb.ts";
import { every } from "#shared/process/lifecycle.ts";
import type { Logger } from "#shared/process/log.ts";
import { startConsumer } from "../../../services/billing/intake/consume.ts";
import { getFunds } from "../../../services/billing/handlers/funds.ts";
import { createHealth } from "#shared/process/health.ts";
import { createMetrics } from "../../../services/billing/metrics.ts";
import { createOutboxPass } from "../../../services/billing/intake/outbox.ts";
import { getProgress } from "../../../services/billing/intake/progress.ts";
import { createLedgerDays } from "../../../services/billing/store/days.ts";
import { createProofs } from "../../../services/billing/records/proofs.ts";
import { holdProofKeys } from "#shared/testing/proof-keys.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { createBalancePusher } from "../../../services/billing/intake/push-balances.ts";
import type { AuthQuotaService, BillingClient } from "./neighbours.ts";
import type { SimulatedConnection } from "./jetstream.ts";
import type { Ledger, LedgerLink } from "./ledger.ts";
import type { Network } from "./network.ts";
import type { UsageStream } from "./stream.ts";

export type BillingDeps = {
  name: string;
  network: Network;
  ledger: Ledger;
  stream: UsageStream;
  authQuota: Pick<AuthQuotaService, "post" | "listUnposted">;
  outboxAgeMs: number;
  log: Logger;
};

const metrics = createMetrics(new Registry());
const proofs = createProofs(holdProofKeys, "");
const clock = { nowMs: () => Date.now() };

// The simulated ledger loses nothing that it has committed.
const repair = {
  mark: () => undefined,
  readsFrom: () => undefined,
  hasBooked: () => undefined,
  open: () => Promise.resolve(),
  pass: () => Promise.resolve(),
};

/** Wires one process as the service's main.ts does, with the product's own parts. */
export function startBilling({ name, network, ledger, stream, authQuota, ...parts }: BillingDeps): BillingClient {
  const { log } = parts;
  const link: LedgerLink = { ledger, network, from: name };
  const pool = link as unknown as Pool;
  const connection: SimulatedConnection = { stream, network, from: name };
  const nats = {
    current: () => (stream.isDown ? undefined : (connection as unknown as NatsConnection)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  const days = createLedgerDays(pool);
  const pusher = createBalancePusher({ authQuota, metrics, log });
  const settings = { replicas: 1, maxBytes: 1_048_576, ackWaitMs: stream.ackWaitMs };
  const work = { authQuota, pool, nats, pusher, proofs, metrics, clock, log, ageMs: parts.outboxAgeMs };
  every(5_000, createOutboxPass(work), log);
  every(5_000, () => pusher.repair(pool), log);
  const health = createHealth([]);
  startConsumer({ pool, days, metrics, clock, log, nats, pusher, proofs, health, stream: settings, repair });
  return {
    getFunds: async (request) =>
      create(GetFundsResponseSchema, await getFunds(pool, create(GetFundsRequestSchema, request))),
    getProgress: async () => create(GetProgressResponseSchema, await getProgress(nats)),
  };
}
