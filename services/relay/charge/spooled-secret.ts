import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { RecordKind, UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { withProof } from "#shared/money/hold-proof.ts";

// A checkpoint in the spool has its hold's secret behind it, as one more field, for whoever closes the call of a dead
// relay by it. The spool is as secret as the memory of the relay; nobody else is told of this field.
const head = Buffer.from([0xc2, 0x3e, 16]);
const tailBytes = head.length + 16;

/** A record as the spool keeps it. */
export function withSecret(record: Uint8Array, holdSecret: Uint8Array): Uint8Array {
  return holdSecret.length === 0 ? record : Buffer.concat([record, head, holdSecret]);
}

/** The record of a checkpoint of the spool, and its hold's secret; an empty one where auth-quota gave none. */
export function takeSecret(spooled: Uint8Array): { record: Uint8Array; holdSecret: Uint8Array } {
  const at = spooled.length - tailBytes;
  const isThere = at > 0 && head.every((byte, index) => spooled[at + index] === byte);
  if (!isThere) return { record: spooled, holdSecret: new Uint8Array() };
  return { record: spooled.subarray(0, at), holdSecret: spooled.subarray(at + head.length) };
}

/** The charge of a call whose relay was killed while it served it: what its last checkpoint says, for good. */
export function closeCheckpoint(
  { relaySession, nextSequence }: { relaySession: string; nextSequence: () => bigint },
  checkpoint: { record: Uint8Array; holdSecret: Uint8Array },
): { record: UsageRecorded; bytes: Uint8Array } {
  const record = fromBinary(UsageRecordedSchema, checkpoint.record);
  const holdProof = new Uint8Array();
  Object.assign(record, { kind: RecordKind.FINAL, relaySession, sequence: nextSequence(), holdProof });
  return { record, bytes: withProof(checkpoint.holdSecret, toBinary(UsageRecordedSchema, record)) };
}
