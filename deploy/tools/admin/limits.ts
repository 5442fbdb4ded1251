import { Option } from "commander";
import { LimitPeriod, LimitPeriodSchema } from "#proto/authquota/v1/authquota_pb.ts";
import { enumWords } from "#shared/money/enum-words.ts";
import { formatUsd } from "#shared/money/money.ts";

const periods = { day: LimitPeriod.DAY, week: LimitPeriod.WEEK, month: LimitPeriod.MONTH, never: LimitPeriod.NEVER };
export type PeriodWord = keyof typeof periods;

/** The limit of a key or account, for people. */
export function limitOf({
  limitNanos,
  limitPeriod,
}: {
  limitNanos?: bigint | undefined;
  limitPeriod: LimitPeriod;
}): string {
  if (limitNanos === undefined) return "none";
  const each = limitPeriod === LimitPeriod.UNSPECIFIED ? "" : ` a ${enumWords(LimitPeriodSchema, limitPeriod)}`;
  return `${formatUsd(limitNanos)}${each}`;
}

export const everyOption = (): Option =>
  new Option("--every <period>", "how often the limit begins anew, by the calendar in UTC").choices(
    Object.keys(periods),
  );

export const periodOf = (every: PeriodWord | undefined) => every && { limitPeriod: periods[every] };

/** A change of a limit as it is asked for; undefined: none. */
export const limitChange = (limitNanos: bigint | undefined, every: PeriodWord | undefined) => ({
  ...(limitNanos === undefined ? { clearLimit: true } : { limitNanos }),
  ...periodOf(every),
});
