import { html, type Markup } from "./html.ts";

/** A figure with something smaller behind it. */
export const withSmall = (value: string | Markup, small: string): Markup => html`${value} <small>${small}</small>`;

const tenthsOf = (part: bigint, whole: bigint): string => `${(Number((part * 1_000n) / whole) / 10).toFixed(1)} %`;

/** A part in percent of its whole. */
export const share = (part: bigint, whole: bigint): string => (whole === 0n ? "–" : tenthsOf(part, whole));

/** How a figure stands to that of the period before. */
export function change(is: bigint, was: bigint): string {
  if (is === was) return "as before";
  if (was === 0n) return "none before";
  return `${is < was ? "-" : "+"}${tenthsOf(is < was ? was - is : is - was, was)} on the period before`;
}
