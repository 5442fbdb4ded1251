import type { FundsSource } from "./load.ts";
import type { Push } from "./push.ts";
import { findDueBudgets, renewBudgets } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";

type BudgetDeps = { database: Database; billing: FundsSource; push: Push };

// As many as billing tells the spending of at once.
const dueAtOnce = 500;
const maxSteps = 200;

/**
 * Begins all budgets anew whose day, week or month is over: each key may spend its budget above what billing has booked
 * for it by now. What is booked later counts on the new period, whenever the call began. Replicas may do this at the
 * same time; a period begins once. Rejects when billing or PostgreSQL does not answer: the old limits stay until then.
 */
export async function renewDueBudgets({ database, billing, push }: BudgetDeps): Promise<void> {
  for (let step = 0; step < maxSteps; step += 1) {
    const due = await findDueBudgets(database, dueAtOnce);
    if (due.length === 0) return;
    const { keys } = await billing.getFunds({ keyIds: due.map(({ keyId }) => keyId) });
    const spent = new Map(keys.map(({ keyId, spentNanos }) => [keyId, spentNanos]));
    const rows = await renewBudgets(
      database,
      due.map((one) => ({ ...one, spentNanos: spent.get(one.keyId) ?? 0n })),
    );
    await push.keys(rows);
    if (due.length < dueAtOnce) return;
  }
}
