import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import type { LiveCall } from "./live-call.ts";
import { checkpointRecord } from "./settle.ts";

type Checkpoint = ReturnType<typeof checkpointRecord>;

/** What a checkpoint tells of a running call that may change, and the one that was made of it. */
type Made = Checkpoint & { told: unknown[] };

const made = new WeakMap<LiveCall, Made>();

const { number: endedAtNumber } = UsageRecordedSchema.field.endedAt;

/**
 * The field `ended_at`, to stand behind a record that has one: of two the later counts, and so that nothing of the
 * earlier is left, both of its numbers are written, 0 too.
 */
function endedAt(nowMs: number): Uint8Array {
  const seconds = Math.floor(nowMs / 1_000);
  const nanos = (nowMs - seconds * 1_000) * 1_000_000;
  return new BinaryWriter()
    .tag(endedAtNumber, WireType.LengthDelimited)
    .fork()
    .tag(1, WireType.Varint)
    .int64(seconds)
    .tag(2, WireType.Varint)
    .int32(nanos)
    .join()
    .finish();
}

/**
 * The record to book should this relay go silent now. Nearly all open streams stand still at any time, and of such a
 * call only the time is written anew.
 */
export function checkpointOf(call: LiveCall, nowMs = Date.now()): Checkpoint {
  const { contentTokens, usage, inputUsage, modelServed, counted } = call.tally;
  const told = [call.heldNanos, contentTokens, usage, inputUsage, modelServed];
  const last = made.get(call);
  // What is counted is counted in place.
  if (last && Object.keys(counted).length === 0 && told.every((value, index) => value === last.told[index])) {
    return { costNanos: last.costNanos, record: Buffer.concat([last.record, endedAt(nowMs)]) };
  }
  const checkpoint = checkpointRecord(call);
  made.set(call, { ...checkpoint, told });
  return checkpoint;
}
