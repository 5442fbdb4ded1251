/**
 * PostgreSQL arrays, written by hand: a batch carries some 60,000 values, for which the driver's own way of
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

const byteaOid = 17;
const headBytes = 20;

/** For bytes: in the binary format, which neither side has to write as text, let alone twice as long in hexadecimal. */
export function bytesArray(values: readonly Uint8Array[]): Buffer {
  let length = headBytes;
  for (const { byteLength } of values) length += 4 + byteLength;
  const array = startArray(values.length, length);
  let at = headBytes;
  for (const value of values) {
    at = array.writeInt32BE(value.byteLength, at);
    array.set(value, at);
    at += value.byteLength;
  }
  return array;
}

/** For bytes that are given in hexadecimal. */
export function hexArray(values: readonly string[]): Buffer {
  let length = headBytes;
  for (const value of values) length += 4 + value.length / 2;
  const array = startArray(values.length, length);
  let at = headBytes;
  for (const value of values) {
    at = array.writeInt32BE(value.length / 2, at);
    at += array.write(value, at, "hex");
  }
  return array;
}

// An array with one dimension (an empty one has none), without NULLs, its first element being number 1.
function startArray(count: number, length: number): Buffer {
  if (count === 0) return Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byteaOid]);
  const array = Buffer.allocUnsafe(length);
  for (const [index, word] of [1, 0, byteaOid, count, 1].entries()) array.writeInt32BE(word, 4 * index);
  return array;
}
