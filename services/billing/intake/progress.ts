import { jetstreamManager, type JetStreamManager } from "@nats-io/jetstream";
import type { GetProgressResponse } from "#proto/billing/v1/billing_pb.ts";
import { ServiceError } from "#shared/process/errors.ts";
import { usageStream } from "#shared/stores/usage-stream.ts";
import type { NatsLink } from "./nats.ts";
import { consumerName, isMissing } from "./stream.ts";

type Progress = Pick<GetProgressResponse, "lastSequence" | "bookedSequence">;

/** How far the usage stream is booked. Throws `unavailable` when NATS does not answer. */
export async function getProgress(nats: NatsLink): Promise<Progress> {
  const connection = nats.current();
  if (!connection) throw new ServiceError("unavailable", "NATS is not connected");
  try {
    return await readProgress(await jetstreamManager(connection));
  } catch (error) {
    // Without a stream nothing is on its way: the consumer declares it again within seconds.
    if (isMissing(error)) return { lastSequence: 0n, bookedSequence: 0n };
    throw new ServiceError("unavailable", "NATS does not tell how far the usage stream is booked", error);
  }
}

async function readProgress(manager: JetStreamManager): Promise<Progress> {
  // In this order: what comes in between only makes the stream look less booked.
  const consumer = await manager.consumers.info(usageStream, consumerName);
  const { state } = await manager.streams.info(usageStream);
  const isIdle = consumer.num_pending === 0 && consumer.num_ack_pending === 0;
  // The floor of acknowledgements does not pass messages that the stream has dropped by age.
  const booked = isIdle ? consumer.delivered.stream_seq : consumer.ack_floor.stream_seq;
  return { lastSequence: BigInt(state.last_seq), bookedSequence: BigInt(booked) };
}
