import type { ConsumerInfo, JetStreamManager, StreamInfo } from "@nats-io/jetstream";
import { usageStream } from "#shared/stores/usage-stream.ts";

const fullShare = 0.8;
const trimmedShare = 0.6;

/**
 * Makes room in a usage stream that is nearly full: the oldest messages go, but none that is not booked. A full stream
 * refuses new events, and would go on to until the oldest are fourteen days old. Gives the number of messages removed.
 */
export async function trimStream(
  manager: JetStreamManager,
  { state, config }: Pick<StreamInfo, "state" | "config">,
  { ack_floor: booked }: Pick<ConsumerInfo, "ack_floor">,
): Promise<number> {
  if (config.max_bytes <= 0 || state.bytes < fullShare * config.max_bytes) return 0;
  const messageBytes = state.bytes / state.messages;
  const excess = Math.ceil((state.bytes - trimmedShare * config.max_bytes) / messageBytes);
  const firstKept = Math.min(state.first_seq + excess, booked.stream_seq + 1);
  if (firstKept <= state.first_seq) return 0;
  return (await manager.streams.purge(usageStream, { seq: firstKept })).purged;
}
