import { inTransaction } from "#shared/stores/postgres.ts";
import type { Deps } from "../deps.ts";
import { recordAudit, type Actor } from "../audit-log.ts";
import {
  insertCorrection,
  listCorrections,
  listReversals,
  listUncorrected,
  lockPaid,
  markCorrected,
  type Correction,
} from "../store/reversals.ts";
import type { TopUp } from "../store/top-ups.ts";
import { takenBack } from "./taken-back.ts";

type ReverseDeps = Pick<Deps, "pool" | "billing" | "metrics" | "log">;

type Paid = Pick<TopUp, "topUpId" | "accountId">;

/**
 * Takes from the account what has gone back of its payment, or gives back what came again: by as much as was said since
 * the correction before. Does nothing for a payment that is not booked; it is asked for again when it is. Rejects when
 * billing or PostgreSQL is down; it must then be asked for again.
 */
export async function correctReversed(deps: ReverseDeps, paymentId: string, reporter: Actor): Promise<void> {
  const { pool, billing, metrics, log } = deps;
  const planned = await inTransaction(pool, async (db) => {
    const paid = await lockPaid(db, paymentId);
    if (!paid) return undefined;
    const corrections = await listCorrections(db, paymentId);
    const taken = takenBack(await listReversals(db, paymentId), paid.amountNanos);
    const corrected = corrections.reduce((sum, { amountNanos }) => sum + amountNanos, 0n);
    const missing = -taken - corrected;
    if (missing === 0n) return { paid, corrections };
    const correction = { paymentId, number: corrections.length + 1, amountNanos: missing };
    await insertCorrection(db, correction);
    return { paid, corrections: [...corrections, { ...correction, isBooked: false }] };
  });
  if (!planned) return;
  const { paid } = planned;
  const { accountId, topUpId } = paid;
  for (const correction of planned.corrections.filter(({ isBooked }) => !isBooked)) {
    const { amountNanos, number } = correction;
    const isTaken = amountNanos < 0n;
    const reason = `top-up ${topUpId}: ${isTaken ? "refunded or disputed" : "the payment came back"}`;
    const correctionId = `${paymentId}:reversal:${number}`;
    const { line } = await billing.correct({ accountId, amountNanos, correctionId, reason });
    if (!(await noteCorrected(pool, { paid, correction, lineId: line?.lineId ?? "", reporter }))) continue;
    metrics.topUps.inc({ provider: reporter.email, outcome: isTaken ? "taken_back" : "given_back" });
    log.warn({ topUpId, accountId, paymentId, amountNanos: `${amountNanos}` }, "payment reversed, account corrected");
  }
}

type Corrected = { paid: Paid; correction: Correction; lineId: string; reporter: Actor };

function noteCorrected(pool: Deps["pool"], { paid, correction, lineId, reporter }: Corrected): Promise<boolean> {
  const { topUpId, accountId } = paid;
  const after = { amountNanos: `${correction.amountNanos}`, paymentId: correction.paymentId, lineId };
  return inTransaction(pool, async (db) => {
    if (!(await markCorrected(db, correction))) return false;
    await recordAudit(db, reporter, { action: "top-up.reverse", accountId, target: topUpId, after });
    return true;
  });
}

const maxPerPass = 10;

/** Books corrections whose answer was lost, or that billing could not take. */
export async function correctPending(deps: ReverseDeps, reporter: Actor): Promise<void> {
  for (const paymentId of await listUncorrected(deps.pool, maxPerPass)) {
    try {
      await correctReversed(deps, paymentId, reporter);
    } catch (error) {
      deps.log.error({ err: error, paymentId }, "failed to correct an account after a reversed payment");
    }
  }
}
