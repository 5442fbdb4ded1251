import { formatUsd } from "#shared/money/money.ts";
import { html, type Markup } from "./html.ts";

const nanosPerUsd = 1_000_000_000n;

/** An amount (nano-USD) with its nine decimals shortened to what is needed, two at least: exact. */
export function usd(nanos: bigint): string {
  return `${formatUsd(nanos).replace(/0{1,7}$/, "")} USD`;
}

/** An amount (nano-USD) as people read it; the exact one is beside it for whoever points there, and for script. */
export function money(nanos: bigint): Markup {
  return html`<data class="money" value="${formatUsd(nanos)}" title="${usd(nanos)}">${shortUsd(nanos)}</data>`;
}

/**
 * An amount (nano-USD) with two to six decimals, rounded half away from zero: the smaller, the more. What is not zero
 * is never shown as zero.
 */
export function shortUsd(nanos: bigint): string {
  const sign = nanos < 0n ? "-" : "";
  const size = nanos < 0n ? -nanos : nanos;
  if (size > 0n && size < 1_000n) return `${sign}<$0.000001`;
  const decimals = size >= 100n * nanosPerUsd ? 2 : size >= nanosPerUsd ? 4 : 6;
  const unit = 10n ** BigInt(9 - decimals);
  const rounded = ((size + unit / 2n) / unit) * unit;
  const [whole = "", fraction = ""] = formatUsd(rounded).split(".");
  const shown = fraction.replace(/0+$/, "").padEnd(2, "0");
  return `${sign}$${BigInt(whole).toLocaleString("en-US")}.${shown}`;
}
