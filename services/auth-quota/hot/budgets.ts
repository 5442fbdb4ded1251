import type { FundsSource } from "./load.ts";
import type { Push } from "./push.ts";
import { findDueBudgets, renewBudgets } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";

type BudgetDeps = { database: Database; billing: FundsSource; push: Push };

// As many as billing tells the spending of at once.
const dueAtOnce = 500;
const maxSteps = 200;

/**
 * Begins the budgets of these keys anew whose day, week or month is over: each may spend its budget above what billing
 * has booked for it by now. What is booked later counts on the new period, whenever the call began. Replicas may do
 * this at the same time; a period begins once. Rejects when billing or PostgreSQL does not answer: the old limits stay
 * until then.
 */
export async function beginBudgets({ database, billing, push }: BudgetDeps, keyIds: string[]): Promise<void> {
  const { keys } = await billing.getFunds({ keyIds });
  await push.keys(await renewBudgets(database, keys));
}

/** Begins all budgets anew that are due. */
export async function renewDueBudgets(deps: BudgetDeps): Promise<void> {
  for (let step = 0; step < maxSteps; step += 1) {
    const due = await findDueBudgets(deps.database, dueAtOnce);
    if (due.length > 0) await beginBudgets(deps, due);
    if (due.length < dueAtOnce) return;
  }
}
