/**
 * PostgreSQL array literals, written by hand: a batch carries some 60,000 values, for which the driver's own way of
 * writing arrays takes several times as long.
 */
export function numberArray(values: readonly (bigint | number | null)[]): string {
  let text = "{";
  for (let index = 0; index < values.length; index += 1) {
    if (index > 0) text += ",";
    text += values[index] ?? "NULL";
  }
  return `${text}}`;
}

/** For values that cannot hold quotes, commas, braces or backslashes, such as ids, UUIDs and days. */
export function plainArray(values: readonly string[]): string {
  return `{${values.join(",")}}`;
}

/** For any text; null stays NULL. */
export function textArray(values: readonly (string | null)[]): string {
  return `{${values.map((value) => (value === null ? "NULL" : `"${value.replace(/[\\"]/g, "\\$&")}"`)).join(",")}}`;
}

/** For bytes. */
export function bytesArray(values: readonly Uint8Array[]): string {
  return hexArray(
    values.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString("hex")),
  );
}

/** For bytes that are given in hexadecimal. */
export function hexArray(values: readonly string[]): string {
  return values.length === 0 ? "{}" : `{"\\\\x${values.join('","\\\\x')}"}`;
}
