import { ServiceError } from "#shared/process/errors.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { faultPoint } from "#shared/process/fault-point.ts";
import type { Deps } from "../deps.ts";
import { keepCard } from "../store/auto-top-ups.ts";
import type { AuditValues } from "../store/audit.ts";
import {
  findByPayment,
  findTopUp,
  markExpired,
  markPaid,
  markUnbooked,
  setReference,
  takePending,
  type TopUp,
} from "../store/top-ups.ts";
import { insertReversal, type Reversal } from "../store/reversals.ts";
import { correctPending, correctReversed } from "./reverse.ts";
import { recordAudit, type AuditEvent } from "../audit-log.ts";
import type { Notice, Payment, PaymentProvider } from "../payments/provider.ts";

export type SettleDeps = Pick<Deps, "pool" | "billing" | "metrics" | "log"> & { payments: PaymentProvider };

/** Who reported the payment, for the audit log. */
export type Reporter = Parameters<typeof recordAudit>[1];

const maxPerPass = 10;

/** Handles a message of the provider: settles a payment, or takes back what has gone back of one. */
export async function handleNotice(deps: SettleDeps, notice: Notice, address: string): Promise<void> {
  if (notice.kind === "payment") return settle(deps, notice.payment, reporterOf(deps, address));
  const { pool, payments } = deps;
  const { paymentId, reversal } = notice;
  if (paymentId === "") return;
  // Messages arrive in any order: a reversed payment may not be reported as paid yet, and is corrected once it is.
  const isNew = await insertReversal(pool, paymentId, reversal);
  const topUp = (await findByPayment(pool, paymentId)) ?? (await findNamed(pool, notice.topUpId));
  if (topUp?.provider !== payments.name) return;
  if (isNew) tellReversal(deps, topUp, { paymentId, what: reversal.what });
  await correctReversed(deps, paymentId, reporterOf(deps, address));
}

type ToldReversal = Pick<Reversal, "what"> & { paymentId: string };

function tellReversal({ log, metrics, payments }: SettleDeps, topUp: TopUp, { paymentId, what }: ToldReversal): void {
  metrics.topUps.inc({ provider: payments.name, outcome: what.replace("-", "_") });
  const { topUpId, accountId, state } = topUp;
  log.warn({ topUpId, accountId, paymentId, state, what }, "payment reversed");
  if (state === "unbooked")
    log.error(
      { topUpId, accountId, paymentId, what },
      "reversed payment was not booked: correct by hand if it was since",
    );
}

const findNamed = async (pool: Deps["pool"], topUpId: string): Promise<TopUp | undefined> =>
  topUpId === "" ? undefined : findTopUp(pool, topUpId);

/** The provider itself as an actor in the audit log. */
export const reporterOf = ({ payments }: Pick<SettleDeps, "payments">, address: string): Reporter => ({
  personId: null,
  email: payments.name,
  address,
});

/**
 * Brings a top-up to the state of its payment. A paid one is booked to the account of our own row, once, however often
 * it is reported. Rejects when billing or PostgreSQL is down; it must then be reported again.
 */
export async function settle(deps: SettleDeps, payment: Payment, reporter: Reporter): Promise<void> {
  const { pool, log, metrics, payments } = deps;
  const { topUpId, outcome } = payment;
  const topUp = await findTopUp(pool, topUpId);
  if (topUp?.provider !== payments.name) {
    // Another installation may use the same account at the provider.
    return log.warn({ topUpId, outcome }, "payment without a top-up");
  }
  if (topUp.state === "paid" && outcome === "paid" && topUp.paymentId !== payment.paymentId) {
    return log.error(
      { topUpId, paymentId: payment.paymentId },
      "top-up paid twice: book the second payment by hand, under this paymentId only",
    );
  }
  if (topUp.state === "paid" || outcome === "open") return;
  if (outcome === "paid") return book(deps, { topUp, payment, reporter });
  // A session that expires may be another one than that of the row; nothing comes of a row by its own only.
  if (topUp.reference !== null && topUp.reference !== payment.reference) return;
  if (await markExpired(pool, topUpId)) metrics.topUps.inc({ provider: payments.name, outcome: "expired" });
}

type PaidTopUp = { topUp: TopUp; payment: Payment; reporter: Reporter };

async function book(deps: SettleDeps, { topUp, payment, reporter }: PaidTopUp): Promise<void> {
  const { pool, billing, metrics, payments } = deps;
  const { topUpId, accountId, amountNanos } = topUp;
  const { paymentId, reference } = payment;
  const problem = mismatch(topUp, payment);
  if (problem !== undefined) return leaveUnbooked(deps, { topUp, payment, reporter }, new Error(problem));
  let lineId: string;
  try {
    // Billing compares the note, so it must not depend on who reports the payment.
    const booked = await billing.credit({ accountId, amountNanos, paymentId, note: noteOf(topUp) });
    lineId = booked.line?.lineId ?? "";
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code === "unavailable" || error.code === "internal") throw error;
    return leaveUnbooked(deps, { topUp, payment, reporter }, error);
  }
  faultPoint("console: top-up credited, not noted");
  const card = topUp.savesCard ? await payments.readCard(reference) : undefined;
  const isFirst = await inTransaction(pool, async (db) => {
    await setReference(db, topUpId, reference);
    if (!(await markPaid(db, topUpId, paymentId))) return false;
    if (card) await keepCard(db, topUp, card);
    const after = { state: "paid", amountNanos: amountNanos.toString(), paymentId, lineId };
    await recordAudit(db, reporter, bookingEvent(topUp, after));
    return true;
  });
  if (isFirst) metrics.topUps.inc({ provider: payments.name, outcome: "paid" });
  await correctReversed(deps, paymentId, reporter);
}

/** Books a paid top-up that the ledger has lost; billing knows the payment where it has it after all. */
export async function bookAgain({ billing, log }: SettleDeps, topUp: TopUp, paymentId: string): Promise<void> {
  const { topUpId, accountId, amountNanos } = topUp;
  await billing.credit({ accountId, amountNanos, paymentId, note: noteOf(topUp) });
  log.error({ topUpId, accountId, paymentId }, "the ledger had lost a payment: it is booked again");
}

const noteOf = ({ topUpId }: TopUp): string => `top-up ${topUpId}`;

const bookingEvent = ({ topUpId, accountId, state }: TopUp, after: AuditValues): AuditEvent => ({
  action: "top-up.book",
  accountId,
  target: topUpId,
  before: { state },
  after,
});

/** Why a payment does not match its row; undefined when it does. */
function mismatch(topUp: TopUp, payment: Payment): string | undefined {
  if (payment.currency !== "usd") return `paid in ${payment.currency}`;
  if (payment.amountNanos !== topUp.amountNanos) return `paid ${payment.amountNanos} of ${topUp.amountNanos} nano-USD`;
  if (topUp.reference !== null && payment.reference !== topUp.reference) return `paid by ${payment.reference}`;
  return payment.paymentId === "" ? "paid without a payment" : undefined;
}

/** The money was received but is not in the ledger: an operator must decide, as retrying does not help. */
async function leaveUnbooked(deps: SettleDeps, { topUp, payment, reporter }: PaidTopUp, cause: Error): Promise<void> {
  const { pool, log, metrics, payments } = deps;
  const { topUpId, accountId } = topUp;
  const { paymentId } = payment;
  log.error(
    { err: cause, topUpId, accountId, paymentId },
    "payment not booked: check it and book by hand, under this paymentId only",
  );
  const isFirst = await inTransaction(pool, async (db) => {
    if (!(await markUnbooked(db, topUpId, paymentId))) return false;
    await recordAudit(db, reporter, bookingEvent(topUp, { state: "unbooked", paymentId }));
    return true;
  });
  if (isFirst) metrics.topUps.inc({ provider: payments.name, outcome: "unbooked" });
}

/** Queries the provider for the payment of an undecided top-up and settles it. */
export async function settlePendingTopUp(deps: SettleDeps, { reference }: TopUp, reporter: Reporter): Promise<void> {
  if (reference === null) return;
  const payment = await deps.payments.lookUp(reference);
  if (payment) await settle(deps, payment, reporter);
}

/** Settles up to ten top-ups without a message, so that a lost message loses no money. */
export async function settlePendingTopUps(deps: SettleDeps): Promise<void> {
  for (const topUp of await takePending(deps.pool, maxPerPass)) {
    try {
      await settlePendingTopUp(deps, topUp, reporterOf(deps, "console"));
    } catch (error) {
      deps.log.error({ err: error, topUpId: topUp.topUpId }, "failed to check a top-up");
    }
  }
  await correctPending(deps, reporterOf(deps, "console"));
}
