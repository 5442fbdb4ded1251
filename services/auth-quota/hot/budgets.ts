import type { FundsSource } from "./load.ts";
import type { Push } from "./push.ts";
import { findAccounts } from "../store/accounts.ts";
import { findDueBudgets, renewBudgets, type BudgetTable, type Spent } from "../store/budgets.ts";
import { findKeys } from "../store/keys.ts";
import type { Database } from "../store/postgres.ts";

type BudgetDeps = { database: Database; billing: FundsSource; push: Push };

// As many as billing tells the spending of at once.
const dueAtOnce = 500;
const maxSteps = 200;

/**
 * Begins the budgets of these keys or accounts anew whose day, week or month is over: each may spend its budget above
 * what billing has booked for it by now. What is booked later counts on the new period, whenever the call began.
 * Replicas may do this at the same time; a period begins once. Rejects when billing or PostgreSQL does not answer: the
 * old limits stay until then.
 */
export async function beginBudgets(deps: BudgetDeps, table: BudgetTable, ids: string[]): Promise<void> {
  const { database, push } = deps;
  const begun = await renewBudgets(database, table, await readSpent(deps, table, ids));
  if (table === "key") await push.keys(await findKeys(database, begun));
  else await push.accounts(await findAccounts(database, begun));
}

async function readSpent({ billing }: BudgetDeps, table: BudgetTable, ids: string[]): Promise<Spent[]> {
  const { keys, accounts } = await billing.getFunds(table === "key" ? { keyIds: ids } : { accountIds: ids });
  const ofAccounts = accounts.flatMap(({ accountId, spentNanos }) =>
    // A billing of the version before does not tell it.
    spentNanos === undefined ? [] : [{ id: accountId, spentNanos }],
  );
  return [...keys.map(({ keyId, spentNanos }) => ({ id: keyId, spentNanos })), ...ofAccounts];
}

/** Begins all budgets anew that are due. */
export async function renewDueBudgets(deps: BudgetDeps): Promise<void> {
  for (const table of ["account", "key"] as const) await renewDue(deps, table);
}

async function renewDue(deps: BudgetDeps, table: BudgetTable): Promise<void> {
  for (let step = 0; step < maxSteps; step += 1) {
    const due = await findDueBudgets(deps.database, table, dueAtOnce);
    if (due.length > 0) await beginBudgets(deps, table, due);
    if (due.length < dueAtOnce) return;
  }
}
