import { LimitPeriod, type Key } from "#proto/authquota/v1/authquota_pb.ts";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { dayMs } from "#shared/process/clock.ts";
import { formatUsd } from "#shared/money/money.ts";
import { area, choice, input } from "./controls.ts";
import { readDay, readModels, readText, readUsd, type Form } from "./form.ts";
import { html, type Markup } from "./html.ts";
import type { AuditValues } from "../store/audit.ts";

const periods = {
  "": { number: LimitPeriod.NEVER, each: "", words: "In all" },
  day: { number: LimitPeriod.DAY, each: "each day", words: "Each day, from 00:00 UTC" },
  week: { number: LimitPeriod.WEEK, each: "each week", words: "Each week, from Monday" },
  month: { number: LimitPeriod.MONTH, each: "each month", words: "Each month, from the 1st" },
} as const;
type PeriodWord = keyof typeof periods;
const periodWords = Object.keys(periods) as PeriodWord[];

export const numberOfPeriod = (word: PeriodWord): LimitPeriod => periods[word].number;
export const eachPeriod = (word: PeriodWord): string => periods[word].each;

/** What can be set of a key. */
export type KeySettings = {
  name: string;
  /** From when it is refused; undefined: never. */
  expiresAt: Date | undefined;
  /** undefined: no limit of its own. */
  limitNanos: bigint | undefined;
  /** How often the limit begins anew. */
  limitPeriod: PeriodWord;
  /** Empty: all. */
  models: string[];
};

/** What people call a key: keys that were not made here need not have a name. */
export const nameOf = ({ keyId, name }: Pick<Key, "keyId" | "name">): string => name || keyId;

export function settingsOf({ name, expiresAt, limitNanos, limitPeriod, models }: Key): KeySettings {
  const period = periodWords.find((word) => periods[word].number === limitPeriod) ?? "";
  return { name, expiresAt: expiresAt && timestampDate(expiresAt), limitNanos, limitPeriod: period, models };
}

/** Settings for the audit log. */
export function auditSettings({ name, expiresAt, limitNanos, limitPeriod, models }: KeySettings): AuditValues {
  return {
    name,
    expiresAt: expiresAt?.toISOString() ?? null,
    limitNanos: limitNanos?.toString() ?? null,
    ...(limitPeriod && { limitPeriod }),
    models,
  };
}

/** The last whole day (UTC) on which the key works. */
export const lastDayOf = (expiresAt: Date): string => new Date(expiresAt.getTime() - 1).toISOString().slice(0, 10);

const noSettings: KeySettings = {
  name: "",
  expiresAt: undefined,
  limitNanos: undefined,
  limitPeriod: "",
  models: [],
};

export function keyFields(form: Form, settings: KeySettings = noSettings): Markup {
  const { name, expiresAt, limitNanos, limitPeriod, models } = settings;
  return html`${input(form, { name: "name", label: "Name", value: name, maxLength: 200 })}
  ${input(form, {
    name: "last-day",
    label: "Expires on",
    hint: "The key stops working after this day (UTC). Empty: it never expires.",
    value: expiresAt ? lastDayOf(expiresAt) : "",
    type: "date",
    isOptional: true,
  })}
  ${input(form, {
    name: "limit",
    label: "Spending limit in USD",
    hint: "What the key may spend, such as 12.50. Empty: limited only by the account's balance.",
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
  })}
  ${area(form, {
    name: "models",
    label: "Models",
    hint: "Models that the key may use, one per line. Empty: all.",
    value: models.join("\n"),
    rows: 4,
  })}`;
}

/** Reads the fields; undefined when the form says what is wrong. A day that was not touched keeps its very instant. */
export function readKeySettings(form: Form, before: KeySettings = noSettings): KeySettings | undefined {
  const name = readText(form, "name", { maxLength: 200, what: "a name" });
  const models = readModels(form, "models");
  const limitNanos = form.typed("limit") === "" ? undefined : readUsd(form, "limit", { min: 0n });
  const period = periodWords.find((word) => word === form.typed("limit-period"));
  if (period === undefined) form.refuse("limit-period", "Choose one of these.");
  if (period && limitNanos === undefined) form.refuse("limit", "Give the amount of each period.");
  const expiresAt = form.typed("last-day") === "" ? undefined : readExpiry(form, before.expiresAt);
  if (name === undefined || models === undefined || period === undefined || form.errors.size > 0) return undefined;
  return { name, expiresAt, limitNanos, limitPeriod: period, models };
}

function readExpiry(form: Form, before: Date | undefined): Date | undefined {
  if (before && form.typed("last-day") === lastDayOf(before)) return before;
  const day = readDay(form, "last-day");
  return day && new Date(day.getTime() + dayMs);
}
