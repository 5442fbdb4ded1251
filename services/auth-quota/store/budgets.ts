import type { Database } from "./postgres.ts";

/** How often a budget begins anew, by the calendar in UTC; weeks begin on Mondays. */
export type BudgetPeriod = "day" | "week" | "month";

/** What may be spent by a key, or by all keys of an account. */
export type Budget = {
  /** What is enforced; with a budget, what was spent when its period began and the budget. */
  limitNanos: bigint | null;
  budgetNanos: bigint | null;
  budgetPeriod: BudgetPeriod | null;
  /** When the period began that the limit is for; null: none has yet. */
  budgetFrom: Date | null;
};

/** What to change of a budget; undefined leaves it as it is. */
export type BudgetChange = {
  /** In each period, where there is one; null takes the period away, too. */
  limitNanos: bigint | null | undefined;
  budgetPeriod: BudgetPeriod | null | undefined;
};

/** Budgets are of rows of one of these tables. */
export type BudgetTable = "key" | "account";

/** What the owner of a budget has spent. */
export type Spent = { id: string; spentNanos: bigint };

export type RawBudget = { limitNanos: string | null; budgetNanos: string | null };

export const budgetColumns = `limit_nanos as "limitNanos", budget_nanos as "budgetNanos",
  budget_period as "budgetPeriod", nullif(budget_from, '-infinity') as "budgetFrom"`;

const toBigInt = (text: string | null): bigint | null => (text === null ? null : BigInt(text));

export const fromRawBudget = ({ limitNanos, budgetNanos }: RawBudget) => ({
  limitNanos: toBigInt(limitNanos),
  budgetNanos: toBigInt(budgetNanos),
});

// What a number of the money script can hold.
const maxExact = 9_007_199_254_740_991n;

export const periodStart = (period: string): string => `date_trunc(${period}, now(), 'UTC')`;

/**
 * The part of an update that changes a budget by three values: whether it changes, its amount, its period ('' as it is,
 * 'never'). Of another amount in the same period, what was spent before it still counts; any other limit begins anew.
 * A budget of another period than before has not begun: see renewBudgets.
 */
export function changeBudget(isChanged: string, amount: string, period: string): string {
  const newPeriod = `case when not ${isChanged} then budget_period
    when ${amount}::bigint is null or ${period} = 'never' then null when ${period} = '' then budget_period
    else ${period} end`;
  return `limit_nanos = case when not ${isChanged} then limit_nanos
      when budget_period is not null and (${period} = '' or ${period} = budget_period)
        then least(${maxExact}, greatest(0, limit_nanos - budget_nanos + ${amount}::bigint))
      else ${amount}::bigint end,
    budget_nanos = case when ${newPeriod} is null then null when ${isChanged} then ${amount}::bigint
      else budget_nanos end,
    budget_period = ${newPeriod},
    budget_from = case when ${newPeriod} is not distinct from budget_period then budget_from else '-infinity' end`;
}

/** The values of changeBudget. */
export function budgetValues({ limitNanos, budgetPeriod }: BudgetChange): [boolean, bigint | null, string] {
  return [limitNanos !== undefined, limitNanos ?? null, budgetPeriod === undefined ? "" : (budgetPeriod ?? "never")];
}

// The budgets of deleted keys are left alone; accounts are never deleted.
const isLiving = { key: "status <> 'deleted'", account: "true" } as const;

/** Ids of keys or accounts whose budgets must begin anew by the database's clock; at most so many. */
export async function findDueBudgets(database: Database, table: BudgetTable, limit: number): Promise<string[]> {
  const due = (period: BudgetPeriod): string =>
    `(budget_period = '${period}' and budget_from < ${periodStart(`'${period}'`)})`;
  const statement = `select ${table}_id as id from auth_quota.${table}
    where ${isLiving[table]} and budget_period is not null and (${due("day")} or ${due("week")} or ${due("month")})
    limit $1`;
  return (await database.query<{ id: string }>(statement, [limit])).map(({ id }) => id);
}

/**
 * Begins the periods of budgets with what was spent before, once each, whoever else tries. Gives the ids of the rows
 * that were changed.
 */
export async function renewBudgets(database: Database, table: BudgetTable, spent: readonly Spent[]): Promise<string[]> {
  const begins = periodStart("budget_period");
  const statement = `update auth_quota.${table} set limit_nanos = least(${maxExact}, budget_nanos + spent_nanos),
      budget_from = ${begins}, version = version + 1, updated_at = now()
    from unnest($1::text[], $2::bigint[]) as spent (spent_id, spent_nanos)
    where ${table}_id = spent_id and ${isLiving[table]} and budget_from < ${begins}
    returning ${table}_id as id`;
  const values = [spent.map(({ id }) => id), spent.map(({ spentNanos }) => spentNanos)];
  return (await database.query<{ id: string }>(statement, values)).map(({ id }) => id);
}
