import { headers, type MsgHdrs } from "@nats-io/transport-node";

/** The JetStream stream that carries usage events; declared by billing, published to by relays and billing. */
export const usageStream = "USAGE_V1";

/** Subject of every usage event batch. */
export const usageSubject = "usage.v1.recorded";

/** The JetStream stream of the lines that people have booked; declared and published to by billing. */
export const fundsStream = "LEDGER_V1";

/** Subject of every line that was booked by hand. */
export const fundsSubject = "ledger.v1.booked";

/** Who puts batches on the stream. */
export type UsagePublisher = "relay" | "video-task" | "billing";

/**
 * The headers of a batch: CloudEvents 1.0 in binary mode, the message being the event and the batch its data. Made once
 * per batch and sent with every try of it, so that each try is the same message. `id` is the message id as well.
 */
export function usageHeaders(publisher: UsagePublisher, id: string, atMs: number): MsgHdrs {
  const made = headers();
  made.set("ce-specversion", "1.0");
  made.set("ce-id", id);
  made.set("ce-source", `/${publisher}`);
  made.set("ce-type", usageSubject);
  made.set("ce-time", new Date(atMs).toISOString());
  // The name of the message as a type URL of protobuf; nothing is served there.
  made.set("ce-dataschema", "https://type.googleapis.com/usage.v1.UsageBatch");
  // Not Content-Type: that would say that the message holds its envelope, too.
  made.set("ce-datacontenttype", "application/protobuf");
  return made;
}

/**
 * Joins encoded usage.v1.UsageRecorded into one encoded UsageBatch. Their bytes stay as their recorder wrote them: each
 * is field 1, length-delimited, so none is encoded twice.
 */
export function encodeUsageBatch(records: readonly Uint8Array[]): Uint8Array {
  let bytes = 0;
  for (const { length } of records) bytes += 1 + varintBytes(length) + length;
  const batch = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const record of records) {
    batch[at++] = 0x0a;
    let rest = record.length;
    for (; rest > 0x7f; rest >>>= 7) batch[at++] = (rest & 0x7f) | 0x80;
    batch[at++] = rest;
    batch.set(record, at);
    at += record.length;
  }
  return batch;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) bytes += 1;
  return bytes;
}
