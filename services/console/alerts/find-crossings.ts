import { inTransaction } from "#shared/stores/postgres.ts";
import type { Deps } from "../deps.ts";
import {
  addCrossing,
  deleteCrossing,
  listCrossings,
  takeAlertRules,
  type AlertRule,
  type Crossing,
} from "../store/alerts.ts";
import type { NewEvent } from "../store/deliveries.ts";
import { findAccount } from "../directory.ts";
import { balanceLow, budgetReached, limitReached } from "./events.ts";
import { tellAccount } from "./tell-account.ts";

type AlertDeps = Pick<Deps, "pool" | "authQuota" | "billing" | "clock" | "mailer">;

const maxRules = 200;
// No key has an id like this.
const budgetSubject = "budget";
// As many as billing tells the money of at once.
const maxFunds = 500;

/** A subject that is on the wrong side now, with what its owners are told if they were not yet. */
type Found = Crossing & { event: NewEvent };

/**
 * Compares accounts with their rules, those that have waited longest, and has each crossing told once: it is told again
 * after the balance was back above the threshold, as a top-up brings it, or the key or budget below its share.
 */
export async function findCrossings(deps: AlertDeps): Promise<void> {
  const { pool, billing } = deps;
  const rules = await takeAlertRules(pool, maxRules);
  if (rules.length === 0) return;
  const accountIds = rules.map(({ accountId }) => accountId);
  const { accounts } = await billing.getFunds({ accountIds });
  const funds = new Map(accounts.map((one) => [one.accountId, one]));
  const known = Map.groupBy(await listCrossings(pool, accountIds), ({ accountId }) => accountId);
  for (const rule of rules) {
    const { balanceNanos, spentNanos } = funds.get(rule.accountId) ?? {};
    const found = [
      ...lowBalanceOf(deps, rule, balanceNanos),
      ...(await reachedBudgetOf(deps, rule, spentNanos)),
      ...(await reachedLimitsOf(deps, rule)),
    ];
    await update(deps, { rule, found, known: known.get(rule.accountId) ?? [] });
  }
}

function lowBalanceOf({ clock }: AlertDeps, rule: AlertRule, balanceNanos = 0n): Found[] {
  const { accountId, lowBalanceNanos: thresholdNanos } = rule;
  if (thresholdNanos === null || balanceNanos >= thresholdNanos) return [];
  const event = balanceLow({ accountId, at: new Date(clock.nowMs()) }, { balanceNanos, thresholdNanos });
  return [{ accountId, subject: "", event }];
}

async function reachedBudgetOf(
  deps: AlertDeps,
  rule: AlertRule,
  spentInAllNanos: bigint | undefined,
): Promise<Found[]> {
  const { accountId, limitPercent: percent } = rule;
  if (percent === null || spentInAllNanos === undefined) return [];
  const account = await findAccount(deps, accountId);
  if (account?.limitNanos === undefined) return [];
  const { limitNanos, spentBeforeNanos } = account;
  const spentNanos = spentInAllNanos - spentBeforeNanos;
  if (!isReached(limitNanos, spentNanos, percent)) return [];
  const at = new Date(deps.clock.nowMs());
  const event = budgetReached({ accountId, at }, { limitNanos, spentNanos, percent });
  return [{ accountId, subject: budgetSubject, event }];
}

async function reachedLimitsOf({ authQuota, billing, clock }: AlertDeps, rule: AlertRule): Promise<Found[]> {
  const { accountId, limitPercent: percent } = rule;
  if (percent === null) return [];
  const { keys } = await authQuota.listKeys({ accountId });
  const limited = keys.filter(({ limitNanos }) => limitNanos !== undefined);
  const found: Found[] = [];
  for (let from = 0; from < limited.length; from += maxFunds) {
    const some = limited.slice(from, from + maxFunds);
    const funds = await billing.getFunds({ keyIds: some.map(({ keyId }) => keyId) });
    const spent = new Map(funds.keys.map(({ keyId, spentNanos }) => [keyId, spentNanos]));
    for (const key of some) {
      const spentNanos = (spent.get(key.keyId) ?? 0n) - key.spentBeforeNanos;
      if (!isReached(key.limitNanos ?? 0n, spentNanos, percent)) continue;
      const event = limitReached({ accountId, at: new Date(clock.nowMs()) }, { key, spentNanos, percent });
      found.push({ accountId, subject: key.keyId, event });
    }
  }
  return found;
}

const isReached = (limitNanos: bigint, spentNanos: bigint, percent: number): boolean =>
  spentNanos * 100n >= limitNanos * BigInt(percent);

type Compared = { rule: AlertRule; found: readonly Found[]; known: readonly Crossing[] };

async function update(deps: AlertDeps, { rule, found, known }: Compared): Promise<void> {
  const { pool } = deps;
  const isIn = (list: readonly Crossing[], { subject }: Crossing): boolean =>
    list.some((other) => other.subject === subject);
  for (const crossing of known) if (!isIn(found, crossing)) await deleteCrossing(pool, crossing);
  for (const crossing of found) if (!isIn(known, crossing)) await tell(deps, rule, crossing);
}

/** The crossing and its messages are written together: told once, by whichever replica, or not yet. */
async function tell({ pool, mailer }: AlertDeps, { isMailed }: AlertRule, found: Found): Promise<void> {
  await inTransaction(pool, async (db) => {
    if (await addCrossing(db, found))
      await tellAccount(db, found.event, { isMailed: isMailed && mailer !== undefined });
  });
}
