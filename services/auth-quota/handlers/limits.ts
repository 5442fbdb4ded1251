import { LimitPeriod } from "#proto/authquota/v1/authquota_pb.ts";
import type { Budget, BudgetChange, BudgetPeriod } from "../store/budgets.ts";
import { checkAmount, refuse } from "./validate.ts";

type LimitRequest = { limitNanos?: bigint | undefined; clearLimit: boolean; limitPeriod: LimitPeriod };

/** A change of a limit, as requests for keys and accounts tell it. */
export function readLimitChange({ limitNanos, clearLimit, limitPeriod }: LimitRequest): BudgetChange {
  if (clearLimit && limitNanos !== undefined) refuse("limit_nanos and clear_limit exclude each other");
  const limit = limitNanos === undefined ? undefined : checkAmount("limit_nanos", limitNanos);
  return { limitNanos: clearLimit ? null : limit, budgetPeriod: readPeriod(limitPeriod, limitNanos) };
}

const periodNumbers = { day: LimitPeriod.DAY, week: LimitPeriod.WEEK, month: LimitPeriod.MONTH } as const;
const periodWords = ["day", "week", "month"] as const;

/** Null: never; undefined: as it is. */
export function readPeriod(period: LimitPeriod, limitNanos: bigint | undefined): BudgetPeriod | null | undefined {
  if (period === LimitPeriod.UNSPECIFIED) return undefined;
  if (limitNanos === undefined) return refuse("limit_period needs limit_nanos");
  if (period === LimitPeriod.NEVER) return null;
  return periodWords.find((word) => periodNumbers[word] === period) ?? refuse("limit_period is unknown");
}

/** Whether its first period is still to begin: what was spent before must then be asked for. */
export const isToBegin = ({ budgetPeriod, budgetFrom }: Budget): boolean =>
  budgetPeriod !== null && budgetFrom === null;

/** A limit as keys and accounts tell it. */
export function toLimit({ limitNanos, budgetNanos, budgetPeriod, budgetFrom }: Budget) {
  const shownNanos = budgetNanos ?? limitNanos;
  const hasBegun = limitNanos !== null && budgetNanos !== null && budgetFrom !== null;
  return {
    ...(shownNanos !== null && { limitNanos: shownNanos }),
    ...(budgetPeriod && { limitPeriod: periodNumbers[budgetPeriod] }),
    spentBeforeNanos: hasBegun ? limitNanos - budgetNanos : 0n,
  };
}
