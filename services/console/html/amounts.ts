import { formatUsd } from "#shared/money/money.ts";
import { html, type Markup } from "./html.ts";

const nanosPerUsd = 1_000_000_000n;

/** An amount (nano-USD) with its nine decimals shortened to what is needed, two at least: exact. */
export function usd(nanos: bigint): string {
  return `${formatUsd(nanos).replace(/0{1,7}$/, "")} USD`;
}

/** An amount (nano-USD) as people read it; the exact one is beside it for whoever points there, and for script. */
export const money = (nanos: bigint): Markup => amount(nanos, shortUsd(nanos));

/** What somebody has set, a price or a limit, in the same form: exact. */
export function exactMoney(nanos: bigint): Markup {
  const [whole = "", fraction = ""] = formatUsd(nanos)
    .replace(/0{1,7}$/, "")
    .split(".");
  return amount(nanos, `$${BigInt(whole).toLocaleString("en-US")}.${fraction}`);
}

const amount = (nanos: bigint, words: string): Markup =>
  html`<data class="money" value="${formatUsd(nanos)}" title="${usd(nanos)}">${words}</data>`;

/**
 * An amount (nano-USD) as short as people read it, rounded half away from zero: cents from a dollar on, four decimals
 * from a cent on, six below, so that points of a column are below each other. What is not zero is never shown as zero.
 */
export function shortUsd(nanos: bigint): string {
  const sign = nanos < 0n ? "-" : "";
  const size = nanos < 0n ? -nanos : nanos;
  if (size > 0n && size < 1_000n) return `${sign}<$0.000001`;
  const decimals = decimalsOf(size);
  const unit = 10n ** BigInt(9 - decimals);
  const [whole = "", fraction = ""] = formatUsd(((size + unit / 2n) / unit) * unit).split(".");
  return `${sign}$${BigInt(whole).toLocaleString("en-US")}.${fraction.slice(0, decimals)}`;
}

function decimalsOf(nanos: bigint): number {
  if (nanos === 0n || nanos >= nanosPerUsd) return 2;
  return nanos >= nanosPerUsd / 100n ? 4 : 6;
}
