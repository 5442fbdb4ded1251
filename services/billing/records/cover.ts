import { dayMs } from "#shared/process/clock.ts";

/** A time in milliseconds since 1970, the end not included. */
export type Span = { fromMs: number; untilMs: number };

/** How a time is put together: whole days (UTC), whole hours beside them, and what is left at its ends. */
export type Cover = {
  days: Span | undefined;
  hours: Span[];
  edges: Span[];
  /** All whole hours, those of the days included. */
  whole: Span | undefined;
};

/** The same, where there are no sums of hours before this time: their lines are read as those of the ends are. */
export function withoutHoursBefore(cover: Cover, firstMs: number): Cover {
  const old = cover.hours.filter(({ fromMs }) => fromMs < firstMs);
  if (old.length === 0) return cover;
  return { ...cover, hours: cover.hours.filter((hour) => !old.includes(hour)), edges: [...cover.edges, ...old] };
}

const hourMs = 3_600_000;
const floor = (atMs: number, unitMs: number): number => Math.floor(atMs / unitMs) * unitMs;
const ceil = (atMs: number, unitMs: number): number => Math.ceil(atMs / unitMs) * unitMs;

/** Divides a time into what sums of days and hours cover and what they do not. There are days up to `daysUntilMs`. */
export function coverOf({ fromMs, untilMs }: Span, daysUntilMs = Infinity): Cover {
  const outer = splitBy(hourMs, { fromMs, untilMs });
  if (!outer.whole) return { days: undefined, hours: [], edges: outer.rest, whole: undefined };
  const { fromMs: firstMs, untilMs: endMs } = outer.whole;
  const inner = splitBy(dayMs, { fromMs: firstMs, untilMs: Math.min(endMs, daysUntilMs) });
  if (!inner.whole) return { days: undefined, hours: [outer.whole], edges: outer.rest, whole: outer.whole };
  const hours = [
    { fromMs: firstMs, untilMs: inner.whole.fromMs },
    { fromMs: inner.whole.untilMs, untilMs: endMs },
  ];
  return { days: inner.whole, hours: hours.filter(isSome), edges: outer.rest, whole: outer.whole };
}

const isSome = ({ fromMs, untilMs }: Span): boolean => fromMs < untilMs;

function splitBy(unitMs: number, span: Span): { whole: Span | undefined; rest: Span[] } {
  const whole = { fromMs: ceil(span.fromMs, unitMs), untilMs: floor(span.untilMs, unitMs) };
  if (!isSome(whole)) return { whole: undefined, rest: [span].filter(isSome) };
  const rest = [
    { fromMs: span.fromMs, untilMs: whole.fromMs },
    { fromMs: whole.untilMs, untilMs: span.untilMs },
  ];
  return { whole, rest: rest.filter(isSome) };
}
