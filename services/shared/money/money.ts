/**
 * Money is integer nano-USD: 1 USD = 1,000,000,000. It is a bigint where it is computed or stored, an int64 on the
 * wire and a decimal string in JSON; it is never a float.
 */
export const nanosPerUsd = 1_000_000_000n;

/**
 * The most that an account may hold: what Redis' Lua numbers (doubles) represent exactly, 2^53 - 1 nano-USD or about
 * 9 million USD. Credits beyond it are refused.
 */
export const maxAccountNanos = 9_007_199_254_740_991n;

const usdPattern = /^(-?)(\d{1,10})(?:\.(\d{1,9}))?$/;

/** Reads "12.5" as 12,500,000,000 nano-USD. Throws a RangeError for more than nine decimals or anything else. */
export function parseUsd(text: string): bigint {
  const match = usdPattern.exec(text);
  if (!match) throw new RangeError(`${JSON.stringify(text)} is not an amount in USD with at most nine decimals`);
  const [, sign, whole = "0", decimals = ""] = match;
  const nanos = BigInt(whole) * nanosPerUsd + BigInt(decimals.padEnd(9, "0"));
  return sign === "-" ? -nanos : nanos;
}

/** Writes nano-USD with all nine decimals: 1,500 is "0.000001500". */
export function formatUsd(nanos: bigint): string {
  const sign = nanos < 0n ? "-" : "";
  const absolute = nanos < 0n ? -nanos : nanos;
  return `${sign}${absolute / nanosPerUsd}.${(absolute % nanosPerUsd).toString().padStart(9, "0")}`;
}
