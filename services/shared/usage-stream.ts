import { headers, type MsgHdrs } from "@nats-io/transport-node";

/** The JetStream stream that carries usage events; declared by billing, published to by relays and billing. */
export const usageStream = "USAGE_V1";

/** Subject of every usage event batch. */
export const usageSubject = "usage.v1.recorded";

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
