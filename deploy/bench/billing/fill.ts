import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { declareStream } from "../../../services/billing/intake/stream.ts";
import { encodeBatch, encodeEvent, makeEvent } from "../../../services/billing/testing/events.ts";

/** Events as relays publish them. The same ones may fill the stream of any number of ledgers. */
export type Fill = { payloads: Uint8Array[]; events: number; chargedNanos: bigint };

/** Room for the stream, also to be set for the service, which declares it too. */
export const streamMaxBytes = 4 * 2 ** 30;

// As a relay under load sends them.
const eventsPerMessage = 256;

/** Makes events, spread evenly over accounts with a key each. */
export function makeFill(events: number, accounts: number): Fill {
  const payloads: Uint8Array[] = [];
  let chargedNanos = 0n;
  for (let done = 0; done < events; done += eventsPerMessage) {
    const batch = Array.from({ length: Math.min(eventsPerMessage, events - done) }, (_, index) => {
      const number = (done + index) % accounts;
      const sequence = BigInt(done + index);
      return makeEvent({ accountId: `acct_${number}`, keyId: `key_${number}`, sequence });
    });
    for (const { costNanos } of batch) chargedNanos += costNanos;
    payloads.push(encodeBatch(batch.map(encodeEvent)));
  }
  return { payloads, events, chargedNanos };
}

/** Puts the events on a stream that is made anew. */
export async function fillStream(natsUrl: string, { payloads }: Fill): Promise<void> {
  const connection = await connect({ servers: natsUrl });
  try {
    const manager = await jetstreamManager(connection);
    await manager.streams.delete(usageStream).catch(() => undefined);
    await declareStream(manager, { replicas: 1, maxBytes: streamMaxBytes, ackWaitMs: 60_000 });
    const stream = jetstream(connection);
    for (const payload of payloads) await stream.publish(usageSubject, payload);
  } finally {
    await connection.close();
  }
}
