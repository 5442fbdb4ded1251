import type { OperationName } from "../operation-names.ts";
import { AuthQuotaService, type CallState, type Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { grpcService } from "#shared/grpc/grpc.ts";
import {
  enterMessage,
  leaveMessage,
  lengthTag,
  openReader,
  readBool,
  readBytes,
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
  takeMessage,
  writeBytes,
  writeNumber,
  writePresentInt64,
  writePresentText,
  writeText,
  writtenBytes,
} from "#shared/protobuf/wire-writer.ts";

// The messages of the session stream, of which thousands come a second, read and written by hand.

/** An operation as it was sent. One shape for all, so that what reads them stays fast; fields it has not are empty. */
export type Asked = {
  name: OperationName;
  rid: string;
  accountId: string;
  keyId: string;
  ip: string;
  model: string;
  traceparent: string;
  /** Of endSession: the process that is dead. */
  relaySession: string;
  /** What is to be held, or what the call has cost. Exact when it is a safe integer, else refused. */
  nanos: number;
  /** Of extend: the least that is of use. Of restore: the cost. */
  otherNanos: number;
  /** Of authorize: whether the key may have used up its limit. */
  mayBeUsedUp: boolean;
  /** The hash of the key, the record, or many rids. */
  bytes: Buffer;
};

export type AskedBatch = { relaySession: string; batch: number; operations: Asked[] };

/** What was decided of an operation; what is not there is empty. */
export type Result = {
  verdict: Verdict;
  accountId?: string;
  keyId?: string;
  heldNanos?: number;
  retryAfterSeconds?: number;
  models?: string[];
  state?: CallState;
  checkpointNanos?: number;
  states?: Buffer;
};

export type AnsweredBatch = {
  batch: number;
  results: Result[];
  generation: string;
  /** Undefined: it is not known. */
  isMaintenance: boolean | undefined;
  /** Of the hot store; 0: it is not known. */
  timeMs: number;
  /** Whether the relay shall find another process. */
  isStopping: boolean;
};

const noBytes = Buffer.alloc(0);

/** An operation without any field. */
export const askedNothing = (name: OperationName): Asked => ({
  name,
  rid: "",
  accountId: "",
  keyId: "",
  ip: "",
  model: "",
  traceparent: "",
  relaySession: "",
  nanos: 0,
  otherNanos: 0,
  mayBeUsedUp: false,
  bytes: noBytes,
});

/** Reads a SessionRequest. Throws BrokenMessage. */
export function decodeSessionRequest(bytes: Buffer): AskedBatch {
  const reader = openReader(bytes);
  const batch: AskedBatch = { relaySession: "", batch: 0, operations: [] };
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === lengthTag(3)) batch.operations.push(readOperation(reader));
    else if (tag === varintTag(2)) batch.batch = readInt64(reader);
    else if (tag === lengthTag(1)) batch.relaySession = readText(reader);
    else skip(reader, tag);
  }
  return batch;
}

type Slot = Exclude<keyof Asked, "name">;

/** Which field of an operation is what, by the operation's number: number of the field, then what it is. */
const plans: { name: OperationName; slots: Slot[] }[] = [
  { name: "none", slots: [] },
  { name: "authorize", slots: ["bytes", "ip", "mayBeUsedUp"] },
  { name: "reserve", slots: ["rid", "bytes", "ip", "model", "nanos", "traceparent"] },
  { name: "extend", slots: ["rid", "nanos", "otherNanos"] },
  { name: "checkpoint", slots: ["rid", "nanos", "bytes"] },
  { name: "settle", slots: ["rid", "accountId", "keyId", "nanos", "bytes"] },
  { name: "release", slots: ["rid"] },
  { name: "lookup", slots: ["rid"] },
  { name: "endSession", slots: ["relaySession"] },
  { name: "restore", slots: ["rid", "accountId", "keyId", "nanos", "otherNanos", "bytes"] },
  { name: "lookupMany", slots: ["bytes"] },
];

function readOperation(reader: WireReader): Asked {
  const outerEnd = enterMessage(reader);
  let asked: Asked | undefined;
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    const plan = (tag & 7) === 2 ? plans[tag >>> 3] : undefined;
    if (!plan) {
      skip(reader, tag);
      continue;
    }
    const operationEnd = enterMessage(reader);
    asked = askedNothing(plan.name);
    for (let inner = readTag(reader); inner !== 0; inner = readTag(reader)) {
      readField(reader, inner, asked, plan.slots[(inner >>> 3) - 1]);
    }
    leaveMessage(reader, operationEnd);
  }
  leaveMessage(reader, outerEnd);
  return asked ?? askedNothing("none");
}

function readField(reader: WireReader, tag: number, asked: Asked, slot: Slot | undefined): void {
  if (slot === undefined) return skip(reader, tag);
  const isNumber = slot === "nanos" || slot === "otherNanos";
  const isFlag = slot === "mayBeUsedUp";
  if ((tag & 7) !== (isNumber || isFlag ? 0 : 2)) return skip(reader, tag);
  if (isNumber) asked[slot] = readInt64(reader);
  else if (isFlag) asked.mayBeUsedUp = readBool(reader);
  else if (slot === "bytes") asked.bytes = readBytes(reader);
  else asked[slot] = readText(reader);
}

const writer = createWireWriter();

/** Writes a SessionResponse, last field first. This server knows LookupMany and says so. */
export function encodeSessionResponse(answered: AnsweredBatch): Buffer {
  const { batch, results, generation, isMaintenance, isStopping, timeMs } = answered;
  beginMessage(writer);
  if (isStopping) writeNumber(writer, 7, 1);
  writeNumber(writer, 6, timeMs);
  writeNumber(writer, 5, 1);
  if (isMaintenance !== undefined) writePresentInt64(writer, 4, isMaintenance ? 1n : 0n);
  writeText(writer, 3, generation);
  for (let index = results.length - 1; index >= 0; index -= 1) {
    const before = writtenBytes(writer);
    writeResult(results[index] as Result);
    closePart(writer, 2, before);
  }
  writeNumber(writer, 1, batch);
  return takeMessage(writer);
}

function writeResult(result: Result): void {
  if (result.states) writeBytes(writer, 9, result.states);
  if (result.checkpointNanos) writeNumber(writer, 8, result.checkpointNanos);
  if (result.state) writeNumber(writer, 7, result.state);
  if (result.models) {
    for (let at = result.models.length - 1; at >= 0; at -= 1) writePresentText(writer, 6, result.models[at] ?? "");
  }
  if (result.retryAfterSeconds) writeNumber(writer, 5, result.retryAfterSeconds);
  if (result.heldNanos) writeNumber(writer, 4, result.heldNanos);
  if (result.keyId) writeText(writer, 3, result.keyId);
  if (result.accountId) writeText(writer, 2, result.accountId);
  writeNumber(writer, 1, result.verdict);
}

const { session } = grpcService(AuthQuotaService);
if (!session) throw new Error("the contract has no Session");

/** The session as grpc-js serves it. */
export const sessionMethod = {
  ...session,
  requestDeserialize: decodeSessionRequest,
  responseSerialize: encodeSessionResponse,
};
