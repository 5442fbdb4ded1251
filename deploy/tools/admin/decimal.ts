// Providers' exports tell amounts as decimals with more digits than nano-USD, some as floats wrote them: 1.2e-05. They
// are read and added up exactly, and rounded once.

const exactDecimals = 40;
const scale = 10n ** BigInt(exactDecimals);
const scalePerNano = scale / 10n ** 9n;

const decimalPattern = /^([+-]?)(\d{1,15})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/;

/** Reads a decimal exactly, as a multiple of 1e-40; undefined when it is none or has more digits than that. */
export function readDecimal(text: string): bigint | undefined {
  const match = decimalPattern.exec(text);
  if (!match) return undefined;
  const [, sign, whole = "", decimals = "", exponent = "0"] = match;
  const shift = exactDecimals - decimals.length + Number(exponent);
  if (shift < 0 || Number(exponent) > 15) return undefined;
  const value = BigInt(whole + decimals) * 10n ** BigInt(shift);
  return sign === "-" ? -value : value;
}

/** Rounds what readDecimal gives for an amount in USD to nano-USD, a half away from 0. */
export function toNanos(exact: bigint): bigint {
  const absolute = exact < 0n ? -exact : exact;
  const nanos = (absolute + scalePerNano / 2n) / scalePerNano;
  return exact < 0n ? -nanos : nanos;
}
