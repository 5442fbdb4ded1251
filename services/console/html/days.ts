import { dayMs } from "#shared/process/clock.ts";
import { readDay, type Form } from "./form.ts";

/** Whole days (UTC): the midnight at which the first begins, and that at which the last ends. */
export type Span = { from: Date; until: Date };

// What billing sums at once.
const maxDays = 400;

/** A day as YYYY-MM-DD. */
export const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

const nextDay = (day: Date): Date => new Date(day.getTime() + dayMs);

export const lastDayOf = ({ until }: Span): string => dayOf(new Date(until.getTime() - 1));

/** Today and the days before it, so many in all. */
export function lastDays(nowMs: number, days: number): Span {
  const until = new Date((Math.floor(nowMs / dayMs) + 1) * dayMs);
  return { from: new Date(until.getTime() - days * dayMs), until };
}

/** The first day of this month up to today. */
export function thisMonth(nowMs: number): Span {
  const { from, until } = lastDays(nowMs, 1);
  return { from: new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth(), 1)), until };
}

/** All days of the month before this one. */
export function lastMonth(nowMs: number): Span {
  const { from: until } = thisMonth(nowMs);
  return { from: new Date(Date.UTC(until.getUTCFullYear(), until.getUTCMonth() - 1, 1)), until };
}

/** As long a time, right before. */
export const spanBefore = ({ from, until }: Span): Span => ({
  from: new Date(2 * from.getTime() - until.getTime()),
  until: from,
});

/** Every day of a span as YYYY-MM-DD. */
export function daysOf({ from, until }: Span): string[] {
  const days = [];
  for (let day = from; day < until; day = nextDay(day)) days.push(dayOf(day));
  return days;
}

/** The span in the fields `from` and `until` (the last day); what is left out is as usual. Notes what is wrong. */
export function readSpan(form: Form, usual: Span): Span | undefined {
  const from = form.typed("from") === "" ? usual.from : readDay(form, "from");
  const lastDay = form.typed("until") === "" ? undefined : readDay(form, "until");
  const until = lastDay ? nextDay(lastDay) : usual.until;
  if (!from || form.errors.size > 0) return undefined;
  if (from >= until) return form.refuse("until", "The last day must not be before the first.");
  if (until.getTime() - from.getTime() > maxDays * dayMs) {
    return form.refuse("until", `Choose at most ${maxDays} days.`);
  }
  return { from, until };
}
