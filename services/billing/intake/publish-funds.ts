import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { DiscardPolicy, jetstream, jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { nanos, type NatsConnection } from "@nats-io/transport-node";
import { FundsBookedSchema } from "#proto/billing/v1/billing_pb.ts";
import { dayMs } from "#shared/process/clock.ts";
import type { Pool } from "#shared/stores/postgres.ts";
import { fundsStream, fundsSubject } from "#shared/stores/usage-stream.ts";
import { readUnpublished, removeFromOutbox, type UnpublishedLine } from "../store/funds-outbox.ts";
import type { NatsLink } from "./nats.ts";
import { differs, isMissing, possibleReplicas } from "./stream.ts";

export type FundsPublisherDeps = { pool: Pool; nats: NatsLink; replicas: number };

const linesPerPass = 200;
const ackTimeoutMs = 5_000;

/**
 * Creates the pass that puts lines by hand on the stream, in their order. A line that was taken and not forgotten is
 * published again, which its message id makes harmless.
 */
export function createFundsPublisher({ pool, nats, replicas }: FundsPublisherDeps): () => Promise<void> {
  let declaredOn: NatsConnection | undefined;
  return async () => {
    const connection = nats.current();
    if (!connection) return;
    if (declaredOn !== connection) await declareFundsStream(connection, replicas);
    declaredOn = connection;
    const lines = await readUnpublished(pool, linesPerPass);
    if (lines.length === 0) return;
    try {
      for (const line of lines) {
        const options = { msgID: line.lineId, timeout: ackTimeoutMs };
        await jetstream(connection).publish(fundsSubject, encodeLine(line), options);
      }
    } catch (error) {
      // The server may have come back without the stream, on the same connection.
      declaredOn = undefined;
      throw error;
    }
    await removeFromOutbox(
      pool,
      lines.map(({ lineId }) => lineId),
    );
  };
}

function encodeLine({ contentHash, event: _, bookedAt, rid, reference, note, ...line }: UnpublishedLine): Uint8Array {
  const texts = { rid: rid ?? "", reference: reference ?? "", note: note ?? "" };
  return toBinary(
    FundsBookedSchema,
    create(FundsBookedSchema, { line: { ...line, ...texts, bookedAt: timestampFromDate(bookedAt) }, contentHash }),
  );
}

async function declareFundsStream(connection: NatsConnection, wanted: number): Promise<void> {
  const manager = await jetstreamManager(connection);
  const changeable = {
    num_replicas: possibleReplicas(connection.info, wanted),
    // Whoever may publish anywhere may name a request of JetStream's API as where to answer, and the server itself then
    // makes it: these rights are the stream's own.
    deny_purge: true,
    deny_delete: true,
  };
  try {
    const { config } = await manager.streams.info(fundsStream);
    if (differs(config, changeable)) await manager.streams.update(fundsStream, changeable);
  } catch (error) {
    if (!isMissing(error)) throw error;
    await manager.streams.add({
      name: fundsStream,
      subjects: [fundsSubject],
      storage: StorageType.File,
      retention: RetentionPolicy.Limits,
      // As long as a backup may be old. Few and small: a line is some 300 bytes.
      max_age: nanos(60 * dayMs),
      discard: DiscardPolicy.Old,
      max_bytes: 256 * 2 ** 20,
      ...changeable,
    });
  }
}
