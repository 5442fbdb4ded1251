import { LimitPeriod } from "#proto/authquota/v1/authquota_pb.ts";
import { formatUsd } from "#shared/money/money.ts";
import type { AuditValues } from "../store/audit.ts";
import { exactMoney, money } from "./amounts.ts";
import { choice, input } from "./controls.ts";
import { readUsd, type Form } from "./form.ts";
import { html, type Markup } from "./html.ts";

const periods = {
  "": { number: LimitPeriod.NEVER, each: "", words: "In all" },
  day: { number: LimitPeriod.DAY, each: "each day", words: "Each day, from 00:00 UTC" },
  week: { number: LimitPeriod.WEEK, each: "each week", words: "Each week, from Monday" },
  month: { number: LimitPeriod.MONTH, each: "each month", words: "Each month, from the 1st" },
} as const;
type PeriodWord = keyof typeof periods;
const periodWords = Object.keys(periods) as PeriodWord[];

/** What a key, or an account, may spend. */
export type LimitSettings = {
  /** undefined: no limit of its own. */
  limitNanos: bigint | undefined;
  /** How often the limit begins anew. */
  limitPeriod: PeriodWord;
};

/** A limit as auth-quota tells it. */
type ToldLimit = { limitNanos?: bigint | undefined; limitPeriod: LimitPeriod };

export function limitSettingsOf({ limitNanos, limitPeriod }: ToldLimit): LimitSettings {
  return { limitNanos, limitPeriod: periodWords.find((word) => periods[word].number === limitPeriod) ?? "" };
}

/** A limit that is set, for a request to auth-quota. */
export const setLimit = (limitNanos: bigint, { limitPeriod }: LimitSettings) => ({
  limitNanos,
  limitPeriod: periods[limitPeriod].number,
});

/** A limit for a request that changes one. */
export const changedLimit = (limit: LimitSettings) =>
  limit.limitNanos === undefined ? { clearLimit: true } : setLimit(limit.limitNanos, limit);

/** A limit for the audit log. */
export const auditLimit = ({ limitNanos, limitPeriod }: LimitSettings): AuditValues => ({
  limitNanos: limitNanos?.toString() ?? null,
  ...(limitPeriod && { limitPeriod }),
});

export const limitFields = (form: Form, { limitNanos, limitPeriod }: LimitSettings, hint: string): Markup =>
  html`${input(form, {
    name: "limit",
    label: "Spending limit in USD",
    hint,
    value: limitNanos === undefined ? "" : formatUsd(limitNanos).replace(/\.?0+$/, ""),
    inputmode: "decimal",
    maxLength: 21,
    isOptional: true,
  })}
  ${choice(form, {
    name: "limit-period",
    label: "The limit is for what is spent",
    hint: "A limit of a day, week or month begins anew by itself. Another period than before begins at once.",
    value: limitPeriod,
    choices: periodWords.map((word) => [word, periods[word].words]),
  })}`;

/** Reads the fields; undefined when the form says what is wrong. */
export function readLimit(form: Form): LimitSettings | undefined {
  const limitNanos = form.typed("limit") === "" ? undefined : readUsd(form, "limit", { min: 0n });
  const limitPeriod = periodWords.find((word) => word === form.typed("limit-period"));
  if (limitPeriod === undefined) return form.refuse("limit-period", "Choose one of these.");
  if (limitPeriod && limitNanos === undefined) form.refuse("limit", "Give the amount of each period.");
  return form.errors.has("limit") ? undefined : { limitNanos, limitPeriod };
}

// A call under way may cost more than was left when it began.
const leftOf = (limitNanos: bigint, spentNanos: bigint): bigint =>
  limitNanos > spentNanos ? limitNanos - spentNanos : 0n;

/** A limit and what is left of it, of what counts on it. */
export function limitAndRest({ limitNanos, limitPeriod }: LimitSettings, countedNanos: bigint): Markup | undefined {
  if (limitNanos === undefined) return undefined;
  const { each } = periods[limitPeriod];
  const left = money(leftOf(limitNanos, countedNanos));
  return html`${exactMoney(limitNanos)}${each && ` ${each}`}<small>${left} left</small>`;
}
