import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import type { Deps } from "../deps.ts";
import { isId } from "../ids.ts";
import type { Payment } from "../payments/provider.ts";
import { listReversals } from "../store/reversals.ts";
import { beginTold, claimTold, releaseTold, writeTold } from "../store/told-payments.ts";
import { findTopUp } from "../store/top-ups.ts";
import { bookAgain, handleNotice, type SettleDeps } from "./settle.ts";

export type TellAgainDeps = SettleDeps & Pick<Deps, "authQuota" | "clock">;

// The webhook is told first.
const webhookMs = 300_000;
const windowMs = 6 * 3_600_000;
// Stripe lists no older events: https://docs.stripe.com/api/events/list
const keptMs = 30 * dayMs;
const mostCredits = 1_000;

/**
 * Creates the pass that asks the provider for what it has told since the last pass, and handles it once more. A message
 * that was lost is found by that. So are payments that a restore has lost: how far it has come is kept with them and
 * goes back with them, and where the ledger was restored it begins a month back. Rejects when something is away.
 */
export function createTellAgain(deps: TellAgainDeps): () => Promise<void> {
  const { pool, clock } = deps;
  return async () => {
    const told = await claimTold(pool);
    if (!told) return;
    try {
      const nowMs = clock.nowMs();
      const { ledgerEpoch } = await deps.billing.getProgress({});
      if (told.ledgerEpoch !== ledgerEpoch) {
        // The ledger books again what it can by itself before it is asked about.
        const isFirst = told.ledgerEpoch === null;
        return await beginTold(pool, isFirst ? told.untilMs : Math.min(told.untilMs, nowMs - keptMs), ledgerEpoch);
      }
      const endMs = nowMs - webhookMs;
      for (let fromMs = Math.max(told.untilMs, nowMs - keptMs); fromMs < endMs;) {
        const untilMs = Math.min(endMs, fromMs + windowMs);
        await handleBetween(deps, fromMs, untilMs);
        await writeTold(pool, untilMs);
        fromMs = untilMs;
      }
    } finally {
      await releaseTold(pool);
    }
  };
}

async function handleBetween(deps: TellAgainDeps, fromMs: number, untilMs: number): Promise<void> {
  for (const notice of await deps.payments.listNotices(fromMs, untilMs)) {
    await handleNotice(deps, notice, "console");
    if (notice.kind === "payment" && notice.payment.outcome === "paid") await findLost(deps, notice.payment);
  }
}

/** Looks whether the ledger has a payment. One that we know is booked again; of another a person must know. */
async function findLost(deps: TellAgainDeps, payment: Payment): Promise<void> {
  const { pool, authQuota, metrics, payments, log } = deps;
  const { topUpId, paymentId } = payment;
  const topUp = await findTopUp(pool, topUpId);
  // What is not booked as paid by now was left to a person before.
  if (topUp && (topUp.state !== "paid" || topUp.paymentId !== paymentId)) return;
  const accountId = topUp?.accountId ?? payment.accountId;
  // Another installation may use the same account at the provider.
  if (!isId(accountId) || !(await isKnown(authQuota, accountId))) return;
  if (await isBooked(deps, accountId, paymentId)) return;
  // What has gone back of it is lost from the ledger, too.
  const isWhole = (await listReversals(pool, paymentId)).length === 0;
  if (topUp && isWhole) return bookAgain(deps, topUp, paymentId);
  metrics.topUps.inc({ provider: payments.name, outcome: "lost" });
  const about = { topUpId, accountId, paymentId, amountNanos: String(payment.amountNanos), currency: payment.currency };
  log.error(about, "payment is lost by a restore: check it and book it by hand, under this paymentId only");
}

async function isKnown(authQuota: Deps["authQuota"], accountId: string): Promise<boolean> {
  return (await authQuota.getAccounts({ accountIds: [accountId] })).accounts.length > 0;
}

async function isBooked({ billing }: TellAgainDeps, accountId: string, paymentId: string): Promise<boolean> {
  const { lines } = await billing.listLedgerLines({ accountId, kind: LineKind.CREDIT, limit: mostCredits });
  return lines.some(({ reference }) => reference === paymentId);
}
