/** The JetStream stream that carries usage events; declared by billing, published to by relays and billing. */
export const usageStream = "USAGE_V1";

/** Subject of every usage event batch. */
export const usageSubject = "usage.v1.recorded";

/**
 * Joins encoded usage.v1.UsageRecorded into one encoded UsageBatch. Their bytes stay as their recorder wrote them: each
 * is field 1, length-delimited, so none is encoded twice.
 */
export function encodeUsageBatch(records: readonly Uint8Array[]): Uint8Array {
  const pieces: Uint8Array[] = [];
  for (const record of records) {
    const head = [0x0a];
    for (let rest = record.length; ; rest >>>= 7) {
      head.push(rest > 127 ? (rest & 127) | 128 : rest);
      if (rest <= 127) break;
    }
    pieces.push(Uint8Array.from(head), record);
  }
  return Buffer.concat(pieces);
}
