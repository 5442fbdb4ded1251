import { hash as digest } from "node:crypto";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { checkEvent, dayOfMs, type Rejection } from "./check.ts";
import { ridTimeMs } from "#shared/money/rid.ts";
import { isTrusted, type IsProven } from "./proofs.ts";
import { readUsageRecord, type UsageRecord } from "./usage-record.ts";

/** An event that may be booked. */
export type ReadEvent = {
  event: UsageRecord;
  /** As it came: what is stored, and what `hash` (SHA-256, hexadecimal) is of. */
  bytes: Uint8Array;
  hash: string;
  /** UTC day of its rid, YYYY-MM-DD: the same for every copy of the event, whenever it comes. */
  day: string;
  streamSequence: number | undefined;
  /** Whether auth-quota has granted a hold for it; else it may only be what is booked already. */
  isProven: boolean;
};

/** Bytes that cannot be booked, and why. */
export type Reject = Rejection & {
  payload: Uint8Array;
  hash: string;
  rid: string | undefined;
  streamSequence: number | undefined;
};

export type ReadMessage = { events: ReadEvent[]; rejects: Reject[] };

/** Reads one message of the stream. Nothing is thrown and nothing is left out: each event is in one of the lists. */
export function readMessage(
  payload: Uint8Array,
  streamSequence: number | undefined,
  nowMs: number,
  isProven: IsProven = isTrusted,
): ReadMessage {
  const read: ReadMessage = { events: [], rejects: [] };
  if (payload.length === 0) return read;
  let records: Uint8Array[];
  try {
    records = splitBatch(payload);
    if (records.length === 0) throw new Error("no events");
  } catch (error) {
    read.rejects.push(rejectBytes(payload, { reason: "unreadable", detail: String(error) }, streamSequence));
    return read;
  }
  for (const bytes of records) {
    const result = readEvent(bytes, streamSequence, nowMs, isProven);
    if ("reason" in result) read.rejects.push(result);
    else read.events.push(result);
  }
  return read;
}

/** Reads one encoded event: the form in which auth-quota's outbox keeps it, too. */
export function readEvent(
  bytes: Uint8Array,
  streamSequence: number | undefined,
  nowMs: number,
  isProven: IsProven = isTrusted,
): ReadEvent | Reject {
  let event: UsageRecord;
  try {
    event = readUsageRecord(bytes);
  } catch (error) {
    return rejectBytes(bytes, { reason: "unreadable", detail: String(error) }, streamSequence);
  }
  const atMs = ridTimeMs(event.rid);
  const rejection = checkEvent(event, atMs, nowMs);
  if (rejection || atMs === undefined) {
    const why = rejection ?? { reason: "rid_invalid", detail: "no time" };
    return { ...rejectBytes(bytes, why, streamSequence), rid: atMs === undefined ? undefined : event.rid };
  }
  const common = { event, bytes, hash: hashOf(bytes), day: dayOfMs(atMs), streamSequence };
  return { ...common, isProven: isProven(event, bytes) };
}

/** Turns an event that was read into one that cannot be booked. */
export function rejectEvent(read: ReadEvent, rejection: Rejection): Reject {
  const { bytes, hash, event, streamSequence } = read;
  return { ...rejection, payload: bytes, hash, rid: event.rid, streamSequence };
}

function rejectBytes(payload: Uint8Array, rejection: Rejection, streamSequence: number | undefined): Reject {
  return { ...rejection, payload, hash: hashOf(payload), rid: undefined, streamSequence };
}

function hashOf(bytes: Uint8Array): string {
  return digest("sha256", bytes, "hex");
}

// The events of a batch are cut out of its bytes instead of being decoded with it: so they are stored and compared as
// their relay wrote them, and one that is damaged does not take the others with it.
function splitBatch(payload: Uint8Array): Uint8Array[] {
  const reader = new BinaryReader(payload);
  const records: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1 && wireType === WireType.LengthDelimited) records.push(reader.bytes());
    else reader.skip(wireType, field);
  }
  return records;
}
