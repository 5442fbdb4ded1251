import type { JetStreamClient } from "@nats-io/jetstream";
import { LineKind, type BillingService } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { encodeUsageBatch, usageHeaders, usageSubject } from "#shared/stores/usage-stream.ts";
import type { Metrics } from "../metrics.ts";
import { claimMoneyEvents, markBooked, moneyKinds, postpone, type MoneyEvent } from "../store/money-events.ts";

export type ChargeOutboxDeps = {
  pool: Pool;
  billing: Pick<UnaryClient<typeof BillingService>, "refund" | "listLedgerLines">;
  /** The usage stream, while connected. */
  jetStream: () => JetStreamClient | undefined;
  metrics: Metrics;
  log: Logger;
  /** Delay between publishing a charge and checking the ledger for it. */
  confirmMs: number;
  /** How long a claimed event is not claimed again. */
  leaseMs?: number;
};

const eventsAtOnce = 32;
const maxRounds = 32;
// Longer than a try may take: two calls and a publication, of 5 s each.
const defaultLeaseMs = 30_000;
const ackTimeoutMs = 5_000;
const maxBackoffMs = 60_000;

/**
 * Creates the pass that brings charges and refunds into the ledger. A charge is published to the usage stream until the
 * ledger has it; duplicates become one line, by (rid, kind). Once its charge is booked, a refund is requested until it
 * is booked; one refund_id becomes one line. Any number of replicas may run passes concurrently. Rejects when
 * PostgreSQL cannot be reached.
 */
export function createChargePass(deps: ChargeOutboxDeps): () => Promise<void> {
  return async () => {
    for (let round = 0; round < maxRounds; round += 1) {
      const leaseMs = deps.leaseMs ?? defaultLeaseMs;
      const events = await claimMoneyEvents(deps.pool, { limit: eventsAtOnce, leaseMs });
      const tried = await Promise.all(events.map((event) => tryEvent(deps, event)));
      // Where something is away, the rest would wait for it in turn.
      if (events.length < eventsAtOnce || tried.includes(false)) return;
    }
  };
}

// False when it could not be tried.
async function tryEvent(deps: ChargeOutboxDeps, event: MoneyEvent): Promise<boolean> {
  const isCharge = event.kind === moneyKinds.charge;
  const { rid, accountId: account, tries } = event;
  let isTried = true;
  try {
    const isBooked = isCharge ? await tryCharge(deps, event) : await tryRefund(deps, event);
    if (isBooked) return true;
  } catch (error) {
    isTried = false;
    // It is tried until it is booked; the gauge of the oldest tells when that takes long.
    if (tries <= 2) deps.log.warn({ err: error, rid, account, isCharge, tries }, "money event not booked yet");
  }
  await postpone(deps.pool, event, backoffMs(deps, tries));
  return isTried;
}

const backoffMs = ({ confirmMs }: ChargeOutboxDeps, tries: number): number =>
  Math.min(confirmMs * 2 ** Math.min(tries - 1, 30), Math.max(maxBackoffMs, confirmMs));

// Asked before it is published again, so that what is booked ends here without another copy on the stream.
async function tryCharge(deps: ChargeOutboxDeps, event: MoneyEvent): Promise<boolean> {
  const { rid, accountId: account, tries, charge } = event;
  if (tries > 1 && (await isCharged(deps, event))) {
    faultPoint("video-task: charge found in the ledger, not noted");
    if (await markBooked(deps.pool, event)) deps.log.info({ rid, account }, "charge booked");
    return true;
  }
  const stream = deps.jetStream();
  if (!stream) throw new Error("NATS is not connected");
  if (tries > 2) deps.log.warn({ rid, account, tries }, "charge missing in the ledger, republished");
  // Another id at each try: within two minutes the stream would take the same one for what it had, and may have lost.
  const msgID = `video:${rid}:${tries}`;
  const headers = usageHeaders("video-task", msgID, Date.now());
  await stream.publish(usageSubject, encodeUsageBatch([charge]), { msgID, headers, timeout: ackTimeoutMs });
  faultPoint("video-task: charge published, not noted");
  return false;
}

async function isCharged({ billing, log }: ChargeOutboxDeps, { rid, accountId }: MoneyEvent): Promise<boolean> {
  const { lines } = await billing.listLedgerLines({ accountId, rid, limit: 100 });
  if (lines.some(({ kind }) => kind === LineKind.CHARGE)) return true;
  // What cannot be booked as an event is booked by a person, as a correction of the call.
  const isByHand = lines.some(({ kind, amountNanos }) => kind === LineKind.CORRECTION && amountNanos < 0n);
  if (isByHand) log.warn({ rid, account: accountId }, "charge was booked by hand");
  return isByHand;
}

async function tryRefund(deps: ChargeOutboxDeps, event: MoneyEvent): Promise<boolean> {
  const { pool, billing, metrics, log } = deps;
  const { rid, accountId, amountNanos, reason, isLost } = event;
  // A part may have been refunded before the task was lost, by the other id: this is all that is left.
  const refundId = `${isLost ? "video-lost" : "video"}:${rid}`;
  try {
    const { line } = await billing.refund({ accountId, rid, amountNanos, refundId, reason });
    faultPoint("video-task: refund booked, not noted");
    if (!(await markBooked(pool, event))) return true;
    const refundedNanos = line?.amountNanos ?? 0n;
    metrics.refunds.inc();
    metrics.refundedNanos.inc(Number(refundedNanos));
    log.info({ rid, account: accountId, refundedNanos: String(refundedNanos) }, "refund booked");
  } catch (error) {
    if (!isRefused(error)) throw error;
    if (!(await markBooked(pool, event))) return true;
    metrics.refusedMoney.inc();
    log.error({ rid, account: accountId, reason: error.message }, "billing rejected a refund; an operator must check");
  }
  return true;
}

// A person has refunded it before, or has used the id: asking again gives the same answer.
function isRefused(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.code === "failed_precondition" || error.code === "already_exists");
}
