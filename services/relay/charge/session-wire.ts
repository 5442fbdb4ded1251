import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import {
  OperationSchema,
  Verdict,
  type CallState,
  type DrawSchema,
  type ReleaseSchema,
  type ReserveSchema,
  type Result,
  type SettleSchema,
} from "#proto/authquota/v1/authquota_pb.ts";
import {
  enterMessage,
  leaveMessage,
  lengthTag,
  openReader,
  readBool,
  readBytes,
  readInt32,
  readInt64,
  readTag,
  readText,
  skip,
  varintTag,
  type WireReader,
} from "#shared/protobuf/wire-reader.ts";
import {
  beginMessage,
  closePart,
  createWireWriter,
  putBytes,
  takeMessage,
  writeBytes,
  writeInt64,
  writeNumber,
  writeText,
  writtenBytes,
} from "#shared/protobuf/wire-writer.ts";

export type Operation = MessageInitShape<typeof OperationSchema>;

/** What a SessionResponse says. */
export type SessionAnswer = {
  batch: number;
  results: Result[];
  generation: string;
  /** Undefined: it is not known. */
  isMaintenance: boolean | undefined;
  hasLookupMany: boolean;
  /** Of the hot store; 0: it is not known. */
  timeMs: number;
  /** Whether the process at the other end stops, so that another one is to be found. */
  isStopping: boolean;
  /** Leases that are asked back. */
  recalledLeases: readonly string[];
};

const writer = createWireWriter();

/** Encodes a SessionRequest. Two operations are sent for each call, so those of calls are written by hand. */
export function encodeSessionRequest(
  relaySession: string,
  batch: number,
  waiting: readonly { operation: Operation }[],
): Buffer {
  beginMessage(writer);
  for (let index = waiting.length - 1; index >= 0; index -= 1) {
    const before = writtenBytes(writer);
    writeOperation((waiting[index] as { operation: Operation }).operation);
    closePart(writer, 3, before);
  }
  writeNumber(writer, 2, batch);
  writeText(writer, 1, relaySession);
  return takeMessage(writer);
}

function writeOperation(operation: Operation): void {
  const before = writtenBytes(writer);
  switch (operation.operation?.case) {
    case "reserve":
      writeReserve(operation.operation.value);
      return closePart(writer, 2, before);
    case "settle":
      writeSettle(operation.operation.value);
      return closePart(writer, 5, before);
    case "release":
      writeRelease(operation.operation.value);
      return closePart(writer, 6, before);
    case "draw":
      writeDraw(operation.operation.value);
      return closePart(writer, 12, before);
    default:
      putBytes(writer, toBinary(OperationSchema, create(OperationSchema, operation)));
  }
}

const noBytes = new Uint8Array();

function writeReserve(value: MessageInitShape<typeof ReserveSchema>): void {
  writeText(writer, 7, value.address ?? "");
  writeText(writer, 6, value.traceparent ?? "");
  writeInt64(writer, 5, value.estimateNanos ?? 0n);
  writeText(writer, 4, value.model ?? "");
  writeText(writer, 3, value.ip ?? "");
  writeBytes(writer, 2, value.keyHash ?? noBytes);
  writeText(writer, 1, value.rid ?? "");
}

function writeSettle(value: MessageInitShape<typeof SettleSchema>): void {
  writeText(writer, 8, value.ip ?? "");
  writeText(writer, 7, value.leaseRid ?? "");
  writeNumber(writer, 6, value.isLeased ? 1 : 0);
  writeBytes(writer, 5, value.record ?? noBytes);
  writeInt64(writer, 4, value.costNanos ?? 0n);
  writeText(writer, 3, value.keyId ?? "");
  writeText(writer, 2, value.accountId ?? "");
  writeText(writer, 1, value.rid ?? "");
}

function writeRelease(value: MessageInitShape<typeof ReleaseSchema>): void {
  writeNumber(writer, 4, value.calls ?? 0);
  writeBytes(writer, 3, value.keyHash ?? noBytes);
  writeText(writer, 2, value.accountId ?? "");
  writeText(writer, 1, value.rid ?? "");
}

function writeDraw(value: MessageInitShape<typeof DrawSchema>): void {
  writeBytes(writer, 7, value.holdSecret ?? noBytes);
  writeText(writer, 6, value.ip ?? "");
  writeInt64(writer, 5, value.heldNanos ?? 0n);
  writeText(writer, 4, value.keyId ?? "");
  writeText(writer, 3, value.accountId ?? "");
  writeText(writer, 2, value.leaseRid ?? "");
  writeText(writer, 1, value.rid ?? "");
}

const none: string[] = [];

/** Decodes a SessionResponse. Throws for bytes that are none. */
export function decodeSessionResponse(bytes: Buffer): SessionAnswer {
  const reader = openReader(bytes);
  const answer: SessionAnswer = {
    batch: 0,
    results: [],
    generation: "",
    isMaintenance: undefined,
    hasLookupMany: false,
    timeMs: 0,
    isStopping: false,
    recalledLeases: none,
  };
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === lengthTag(2)) answer.results.push(readResult(reader));
    else if (tag === varintTag(1)) answer.batch = readInt64(reader);
    else if (tag === lengthTag(3)) answer.generation = readText(reader);
    else if (tag === varintTag(4)) answer.isMaintenance = readBool(reader);
    else if (tag === varintTag(5)) answer.hasLookupMany = readBool(reader);
    else if (tag === varintTag(6)) answer.timeMs = readInt64(reader);
    else if (tag === varintTag(7)) answer.isStopping = readBool(reader);
    else if (tag === lengthTag(8)) answer.recalledLeases = [...answer.recalledLeases, readText(reader)];
    else skip(reader, tag);
  }
  return answer;
}

const noStates = new Uint8Array();
const noSecret = new Uint8Array();

/** A result that says nothing but its verdict. */
export const resultOf = (verdict: Verdict): Result => ({
  $typeName: "authquota.v1.Result",
  verdict,
  accountId: "",
  keyId: "",
  heldNanos: 0n,
  retryAfterSeconds: 0,
  models: none,
  state: 0 as CallState,
  checkpointNanos: 0n,
  states: noStates,
  holdSecret: noSecret,
  calls: 0,
  lastsMs: 0,
  ipPerMinute: 0,
  isAddressRefused: false,
  maySettleLeased: false,
});

const yes = Object.freeze(resultOf(Verdict.OK));

function readResult(reader: WireReader): Result {
  const outerEnd = enterMessage(reader);
  const result = isPlainYes(reader) ? yes : readFields(reader);
  leaveMessage(reader, outerEnd);
  return result;
}

/** Every charge is answered by a yes and nothing else. */
function isPlainYes(reader: WireReader): boolean {
  const { bytes, at, end } = reader;
  if (end - at !== 2 || bytes[at] !== varintTag(1) || bytes[at + 1] !== Verdict.OK) return false;
  reader.at = end;
  return true;
}

function readFields(reader: WireReader): Result {
  const result = resultOf(Verdict.UNSPECIFIED);
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === varintTag(1)) result.verdict = readInt32(reader) as Verdict;
    else if (tag === lengthTag(2)) result.accountId = readText(reader);
    else if (tag === lengthTag(3)) result.keyId = readText(reader);
    else if (tag === varintTag(4)) result.heldNanos = BigInt(readInt64(reader));
    else if (tag === varintTag(5)) result.retryAfterSeconds = readInt32(reader);
    else if (tag === lengthTag(6)) result.models = [...result.models, readText(reader)];
    else if (tag === varintTag(7)) result.state = readInt32(reader) as CallState;
    else if (tag === varintTag(8)) result.checkpointNanos = BigInt(readInt64(reader));
    else if (tag === lengthTag(9)) result.states = readBytes(reader);
    else if (tag === lengthTag(10)) result.holdSecret = new Uint8Array(readBytes(reader));
    else if (tag === varintTag(11)) result.calls = readInt32(reader);
    else if (tag === varintTag(12)) result.lastsMs = readInt32(reader);
    else if (tag === varintTag(13)) result.ipPerMinute = readInt32(reader);
    else if (tag === varintTag(14)) result.isAddressRefused = readBool(reader);
    else if (tag === varintTag(15)) result.maySettleLeased = readBool(reader);
    else skip(reader, tag);
  }
  return result;
}
