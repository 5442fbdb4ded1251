import { dayOf, lastDayOf, lastDays } from "./days.ts";
import { html, type Markup } from "./html.ts";

const rangeDays = [7, 30, 90] as const;

type Range = { from: string; until: string };

export type RangeLinks<C extends Range> = {
  path: string;
  /** What is chosen, by the names of the fields. */
  chosen: C & Record<string, string>;
  nowMs: number;
  /** A range before the others, with its name. */
  first?: readonly [label: string, range: Partial<C>];
  /** What else those of whole days set. */
  ofDays?: Partial<C>;
};

/** Ranges up to now, with the other filters as they are. */
export function rangeLinks<C extends Range>({ path, chosen, nowMs, first, ofDays }: RangeLinks<C>): Markup {
  const link = (label: string, range: Partial<C>): Markup => {
    const isCurrent = Object.entries(range).every(([name, value]) => chosen[name] === value);
    const href = `${path}?${new URLSearchParams({ ...chosen, ...range }).toString()}`;
    return html`<li><a href="${href}" ${isCurrent && html` aria-current="page"`}>${label}</a></li>`;
  };
  const days = rangeDays.map((number) => {
    const span = lastDays(nowMs, number);
    return link(`${number} days`, { ...ofDays, from: dayOf(span.from), until: lastDayOf(span) } as Partial<C>);
  });
  return html`<nav aria-label="Range">
    <ul>
      ${first && link(...first)} ${days}
    </ul>
  </nav>`;
}
