import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type EndCause,
  type RecordKind,
  type Usage,
  type UsageRecorded,
  UsageRecordedSchema,
  UsageSchema,
  type UsageSource,
} from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets, type UsageBucket, type Units } from "#shared/money/pricing.ts";
import {
  enterMessage,
  leaveMessage,
  lengthTag,
  openReader,
  readBool,
  readInt32,
  readInt64,
  readTag,
  readText,
  skip,
  varintTag,
  type WireReader,
} from "#shared/protobuf/wire-reader.ts";

type Same =
  | "rid"
  | "kind"
  | "accountId"
  | "keyId"
  | "modelRequested"
  | "modelServed"
  | "upstream"
  | "priceVersion"
  | "costNanos"
  | "heldNanos"
  | "endCause"
  | "usageSource"
  | "relaySession"
  | "sequence"
  | "upstreamCostNanos"
  | "traceparent"
  | "isLeased";

/** What booking needs of a usage.v1.UsageRecorded; buckets of 0 may be left out. */
export type UsageRecord = Pick<UsageRecorded, Same> & {
  usage: Units | undefined;
  unitPriceNanos: Units | undefined;
  endedAtMs: number | undefined;
  toldUsage: Units | undefined;
};

/** Reads a record; throws for bytes that are none, and just those that usage.v1.UsageRecorded's schema refuses. */
export function readUsageRecord(bytes: Uint8Array): UsageRecord {
  return readQuickly(bytes) ?? toRecord(fromBinary(UsageRecordedSchema, bytes));
}

function toRecord({ usage, unitPriceNanos, endedAt, toldUsage, ...message }: UsageRecorded): UsageRecord {
  return {
    ...message,
    usage: usage && toUnits(usage),
    unitPriceNanos: unitPriceNanos && toUnits(unitPriceNanos),
    endedAtMs: endedAt && timestampMs(endedAt),
    toldUsage: toldUsage && toUnits(toldUsage),
  };
}

function toUnits(message: Usage): Units {
  const units: Units = {};
  for (const bucket of usageBuckets) if (message[bucket] !== 0n) units[bucket] = message[bucket];
  return units;
}

// Thousands come a second, and each is a page of objects when its schema reads it. What this does not expect (a broken
// message, a field twice, a number above 2^53) is left to the schema: undefined.
function readQuickly(bytes: Uint8Array): UsageRecord | undefined {
  const record = emptyRecord();
  try {
    const reader = openReader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
      if (!readField(reader, tag, record)) return undefined;
    }
    return record;
  } catch {
    return undefined;
  }
}

const emptyRecord = (): UsageRecord => ({
  rid: "",
  kind: 0,
  accountId: "",
  keyId: "",
  modelRequested: "",
  modelServed: "",
  upstream: "",
  usage: undefined,
  unitPriceNanos: undefined,
  priceVersion: "",
  costNanos: 0n,
  heldNanos: 0n,
  endCause: 0,
  usageSource: 0,
  endedAtMs: undefined,
  toldUsage: undefined,
  relaySession: "",
  sequence: 0n,
  upstreamCostNanos: undefined,
  traceparent: "",
  isLeased: false,
});

/** Whether the field was as expected. Those that booking does not need are read to see that they can be. */
function readField(reader: WireReader, tag: number, record: UsageRecord): boolean {
  switch (tag) {
    case lengthTag(1):
      record.rid = readText(reader);
      return true;
    case varintTag(2):
      record.kind = readInt32(reader) as RecordKind;
      return true;
    case varintTag(12):
      record.costNanos = readBigInt(reader);
      return true;
    case varintTag(13):
      record.heldNanos = readBigInt(reader);
      return true;
    case varintTag(14):
      record.endCause = readInt32(reader) as EndCause;
      return true;
    case varintTag(15):
      record.usageSource = readInt32(reader) as UsageSource;
      return true;
    case varintTag(19):
    case varintTag(20):
    case lengthTag(27):
      skip(reader, tag);
      return true;
    case varintTag(22):
      record.sequence = readBigInt(reader);
      return true;
    case varintTag(23):
      record.upstreamCostNanos = readBigInt(reader);
      return true;
    case lengthTag(24):
      record.traceparent = readText(reader);
      return true;
    case varintTag(28):
      record.isLeased = readBool(reader);
      return true;
    default:
      return readCommonText(reader, tag, record) || readInner(reader, tag, record) || skipUnknown(reader, tag);
  }
}

const highestField = 28;

function skipUnknown(reader: WireReader, tag: number): boolean {
  if (tag >>> 3 <= highestField) return false;
  skip(reader, tag);
  return true;
}

/** Texts that most records have in common with the one before. */
function readCommonText(reader: WireReader, tag: number, record: UsageRecord): boolean {
  switch (tag) {
    case lengthTag(3):
      record.accountId = readAgain(reader, accountIds);
      return true;
    case lengthTag(4):
      record.keyId = readAgain(reader, keyIds);
      return true;
    case lengthTag(5):
      readAgain(reader, endpoints);
      return true;
    case lengthTag(6):
      record.modelRequested = readAgain(reader, modelsRequested);
      return true;
    case lengthTag(7):
      record.modelServed = readAgain(reader, modelsServed);
      return true;
    case lengthTag(8):
      record.upstream = readAgain(reader, upstreams);
      return true;
    case lengthTag(11):
      record.priceVersion = readAgain(reader, priceVersions);
      return true;
    case lengthTag(21):
      record.relaySession = readAgain(reader, relaySessions);
      return true;
    default:
      return false;
  }
}

function readInner(reader: WireReader, tag: number, record: UsageRecord): boolean {
  switch (tag) {
    case lengthTag(9):
      if (record.usage) return false;
      record.usage = readUnits(reader);
      return true;
    case lengthTag(10):
      if (record.unitPriceNanos) return false;
      record.unitPriceNanos = readAgain(reader, unitPrices);
      return true;
    case lengthTag(16):
    case lengthTag(17):
      readTimeMs(reader);
      return true;
    case lengthTag(18):
      if (record.endedAtMs !== undefined) return false;
      record.endedAtMs = readTimeMs(reader);
      return true;
    case lengthTag(26):
      if (record.toldUsage) return false;
      record.toldUsage = readUnits(reader);
      return true;
    default:
      return false;
  }
}

/** What was read of a field last, and from which bytes. */
type Last<T> = { bytes: Buffer; value: T; read: (reader: WireReader) => T };

const lastText = (): Last<string> => ({ bytes: Buffer.alloc(0), value: "", read: readText });
const [accountIds, keyIds, endpoints, modelsRequested] = [lastText(), lastText(), lastText(), lastText()];
const [modelsServed, upstreams, priceVersions, relaySessions] = [lastText(), lastText(), lastText(), lastText()];
const unitPrices: Last<Units> = { bytes: Buffer.alloc(0), value: {}, read: readUnits };

// Lengths that are one byte on the wire.
const longestKept = 127;

// Reading the same bytes again would only make the same value again, for the garbage collector.
function readAgain<T>(reader: WireReader, last: Last<T>): T {
  const { at, end, bytes } = reader;
  const length = bytes[at] ?? 0;
  if (length > longestKept) return last.read(reader);
  if (length === last.bytes.length && at + length < end) {
    let same = 0;
    while (same < length && bytes[at + 1 + same] === last.bytes[same]) same += 1;
    if (same === length) {
      reader.at = at + 1 + length;
      return last.value;
    }
  }
  last.value = last.read(reader);
  // A copy: a part of the message would keep all of it in memory.
  last.bytes = Buffer.from(bytes.subarray(at + 1, reader.at));
  return last.value;
}

const bucketsByTag: UsageBucket[] = [];
for (const bucket of usageBuckets) bucketsByTag[varintTag(UsageSchema.field[bucket].number)] = bucket;

function readUnits(reader: WireReader): Units {
  const outerEnd = enterMessage(reader);
  const units: Units = {};
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    const bucket = bucketsByTag[tag];
    if (bucket) setUnits(units, bucket, readBigInt(reader));
    else if (tag >= varintTag(usageBuckets.length + 1)) skip(reader, tag);
    else throw unexpected;
  }
  leaveMessage(reader, outerEnd);
  return units;
}

function setUnits(units: Units, bucket: UsageBucket, count: bigint): void {
  if (count !== 0n || units[bucket] !== undefined) units[bucket] = count;
}

const unexpected = new Error("left to the schema");

function readBigInt(reader: WireReader): bigint {
  const value = readInt64(reader);
  if (!Number.isSafeInteger(value)) throw unexpected;
  return BigInt(value);
}

function readTimeMs(reader: WireReader): number {
  const outerEnd = enterMessage(reader);
  let seconds = 0;
  let nanos = 0;
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === varintTag(1)) seconds = readInt64(reader);
    else if (tag === varintTag(2)) nanos = readInt32(reader);
    else throw unexpected;
  }
  leaveMessage(reader, outerEnd);
  return seconds * 1_000 + Math.round(nanos / 1_000_000);
}
