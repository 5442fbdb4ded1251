import { faultPoint } from "#shared/process/fault-point.ts";
import { inTransaction } from "#shared/stores/postgres.ts";
import { topUpFailed } from "../alerts/events.ts";
import { tellAccount } from "../alerts/tell-account.ts";
import { recordAudit } from "../audit-log.ts";
import type { Deps } from "../deps.ts";
import {
  chargedThisMonth,
  findSavedCard,
  hasUndecided,
  insertCharge,
  lockAutoTopUp,
  switchOff,
  takeAutoTopUps,
} from "../store/auto-top-ups.ts";
import {
  findTopUp,
  markDeclined,
  markUnbooked,
  setReference,
  takePendingCharges,
  type TopUp,
} from "../store/top-ups.ts";
import { reporterOf, settle, type SettleDeps } from "./settle.ts";

export type ChargeDeps = SettleDeps & Pick<Deps, "clock" | "mailer">;

const maxRules = 200;
const maxPending = 10;
// Stripe knows a charge by its key for a day at least; after that, asking again could charge again.
const askAgainMs = 20 * 3_600_000;

/** Charges the saved cards of accounts whose balances are below their thresholds. Any number of replicas may. */
export async function chargeDue(deps: ChargeDeps): Promise<void> {
  const rules = await takeAutoTopUps(deps.pool, maxRules);
  if (rules.length === 0) return;
  const { accounts } = await deps.billing.getFunds({ accountIds: rules.map(({ accountId }) => accountId) });
  const balances = new Map(accounts.map(({ accountId, balanceNanos }) => [accountId, balanceNanos]));
  for (const { accountId, thresholdNanos } of rules) {
    if ((balances.get(accountId) ?? 0n) >= thresholdNanos) continue;
    try {
      const topUp = await begin(deps, accountId);
      if (topUp) await charge(deps, topUp);
    } catch (error) {
      deps.log.warn({ err: error, accountId }, "failed to top up automatically, will retry");
    }
  }
}

/**
 * Writes the charge down before the provider hears of it, unless there is one already or the account has its money by
 * now. The balance is read once no charge is under way: what was paid before is in it.
 */
function begin(deps: ChargeDeps, accountId: string): Promise<TopUp | undefined> {
  const { pool, billing, payments, metrics } = deps;
  return inTransaction(pool, async (db) => {
    const rule = await lockAutoTopUp(db, accountId);
    const card = await findSavedCard(db, accountId);
    if (!rule?.isOn || !card || (await hasUndecided(db, accountId))) return undefined;
    const { amountNanos, thresholdNanos, monthlyCapNanos, setBy: personId } = rule;
    if ((await chargedThisMonth(db, accountId)) + amountNanos > monthlyCapNanos) return undefined;
    const { balanceNanos } = await billing.getBalance({ accountId });
    if (balanceNanos >= thresholdNanos) return undefined;
    const { name: provider } = payments;
    const topUpId = await insertCharge(db, { accountId, personId, provider, amountNanos, card });
    const after = { provider, amountNanos: `${amountNanos}`, isAutomatic: true };
    await recordAudit(db, reporterOf(deps, "console"), { action: "top-up.begin", accountId, target: topUpId, after });
    metrics.topUps.inc({ provider, outcome: "begun" });
    return findTopUp(db, topUpId);
  });
}

/** Asks for the charge, in the same words however often, and books what comes of it. */
async function charge(deps: ChargeDeps, topUp: TopUp): Promise<void> {
  const { payments, pool } = deps;
  const { topUpId, accountId, amountNanos, customer, method } = topUp;
  if (customer === null || method === null) throw new Error(`top-up ${topUpId} names no card`);
  faultPoint("console: charge written down, nothing asked");
  const answer = await payments.chargeCard({ topUpId, accountId, amountNanos, customer, method });
  faultPoint("console: card charged, nothing credited");
  if ("declined" in answer) return decline(deps, topUp, answer.declined);
  await setReference(pool, topUpId, answer.reference);
  await settle(deps, answer, reporterOf(deps, "console"));
}

/** Switches it off, and tells the owners and the webhooks: nobody is there to see it. */
async function decline(deps: ChargeDeps, { topUpId, accountId, amountNanos }: TopUp, reason: string): Promise<void> {
  const { pool, payments, metrics, clock } = deps;
  const isFirst = await inTransaction(pool, async (db) => {
    if (!(await markDeclined(db, topUpId, reason))) return false;
    await switchOff(db, accountId, reason);
    const event = topUpFailed({ accountId, at: new Date(clock.nowMs()) }, { topUpId, amountNanos, reason });
    await tellAccount(db, event, { isMailed: deps.mailer !== undefined });
    const after = { state: "declined", reason };
    await recordAudit(db, reporterOf(deps, "console"), { action: "top-up.decline", accountId, target: topUpId, after });
    return true;
  });
  if (isFirst) metrics.topUps.inc({ provider: payments.name, outcome: "declined" });
}

/** Goes on with charges of which nothing was heard, as when this process died. */
export async function chargePending(deps: ChargeDeps): Promise<void> {
  for (const topUp of await takePendingCharges(deps.pool, maxPending)) {
    try {
      await goOn(deps, topUp);
    } catch (error) {
      deps.log.error({ err: error, topUpId: topUp.topUpId }, "failed to go on with an automatic top-up");
    }
  }
}

async function goOn(deps: ChargeDeps, topUp: TopUp): Promise<void> {
  const { payments, pool, clock, log } = deps;
  const { topUpId, accountId, reference, createdAt } = topUp;
  if (reference !== null) {
    const payment = await payments.lookUp(reference);
    if (payment) await settle(deps, payment, reporterOf(deps, "console"));
    return;
  }
  if (clock.nowMs() - createdAt.getTime() < askAgainMs) return charge(deps, topUp);
  const words = "not known whether a card was charged: look it up at the provider by its top_up_id, book it by hand";
  if (await markUnbooked(pool, topUpId, "")) log.error({ topUpId, accountId }, words);
}
