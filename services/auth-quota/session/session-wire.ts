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

// Encodes and decodes the messages of the session stream by hand: thousands of them come in a second.

/**
 * An operation of a SessionRequest. All operations have one shape, so that the code that reads them stays monomorphic;
 * each sets the fields of its message in the contract and leaves the others empty. Amounts that do not fit are decoded
 * as unsafe integers, and rejected later.
 */
export type SessionOperation = {
  name: OperationName;
  rid: string;
  accountId: string;
  keyId: string;
  ip: string;
  address: string;
  model: string;
  traceparent: string;
  relaySession: string;
  leaseRid: string;
  estimateNanos: number;
  totalNanos: number;
  leastNanos: number;
  heldNanos: number;
  costNanos: number;
  calls: number;
  mayBeUsedUp: boolean;
  isLeased: boolean;
  keyHash: Buffer;
  record: Buffer;
  rids: Buffer;
  accountHashes: Buffer;
  holdSecret: Buffer;
};

export type SessionRequest = { relaySession: string; batch: number; operations: SessionOperation[] };

/** The decision on an operation; absent fields are empty. */
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
  holdSecret?: Buffer;
  calls?: number;
  lastsMs?: number;
  ipPerMinute?: number;
  isAddressRefused?: boolean;
  maySettleLeased?: boolean;
};

export type SessionResponse = {
  batch: number;
  results: Result[];
  generation: string;
  /** Undefined while unknown. */
  isMaintenance: boolean | undefined;
  /** Time of the hot store; 0 while unknown. */
  timeMs: number;
  /** Asks the relay to connect to another replica. */
  isStopping: boolean;
  /** Leases that the relay is to give back. */
  recalledLeases: readonly string[];
};

const noBytes = Buffer.alloc(0);

/** An operation with empty fields. */
export const emptyOperation = (name: OperationName): SessionOperation => ({
  name,
  rid: "",
  accountId: "",
  keyId: "",
  ip: "",
  address: "",
  model: "",
  traceparent: "",
  relaySession: "",
  leaseRid: "",
  estimateNanos: 0,
  totalNanos: 0,
  leastNanos: 0,
  heldNanos: 0,
  costNanos: 0,
  calls: 0,
  mayBeUsedUp: false,
  isLeased: false,
  keyHash: noBytes,
  record: noBytes,
  rids: noBytes,
  accountHashes: noBytes,
  holdSecret: noBytes,
});

/** Decodes a SessionRequest. Throws BrokenMessage. */
export function decodeSessionRequest(bytes: Buffer): SessionRequest {
  const reader = openReader(bytes);
  const request: SessionRequest = { relaySession: "", batch: 0, operations: [] };
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    if (tag === lengthTag(3)) request.operations.push(readOperation(reader));
    else if (tag === varintTag(2)) request.batch = readInt64(reader);
    else if (tag === lengthTag(1)) request.relaySession = readText(reader);
    else skip(reader, tag);
  }
  return request;
}

type FieldsOf<T> = { [K in keyof SessionOperation]: SessionOperation[K] extends T ? K : never }[keyof SessionOperation];

type WireField =
  | { type: "text"; name: Exclude<FieldsOf<string>, "name"> }
  | { type: "amount"; name: FieldsOf<number> }
  | { type: "bytes"; name: FieldsOf<Buffer> }
  | { type: "flag"; name: FieldsOf<boolean> };

const texts = [
  "rid",
  "accountId",
  "keyId",
  "ip",
  "address",
  "model",
  "traceparent",
  "relaySession",
  "leaseRid",
] as const;
const amounts = ["estimateNanos", "totalNanos", "leastNanos", "heldNanos", "costNanos", "calls"] as const;
const byteFields = ["keyHash", "record", "rids", "accountHashes", "holdSecret"] as const;

const flags = ["mayBeUsedUp", "isLeased"] as const;

const wireFields = new Map<string, WireField>([
  ...texts.map((name) => [name, { type: "text", name }] as const),
  ...amounts.map((name) => [name, { type: "amount", name }] as const),
  ...byteFields.map((name) => [name, { type: "bytes", name }] as const),
  ...flags.map((name) => [name, { type: "flag", name }] as const),
]);

const plan = (name: OperationName, ...fields: WireField["name"][]) => ({
  name,
  fields: fields.map((field) => wireFields.get(field)),
});

/** The fields of each operation in the order of their numbers, by the number of the operation. */
const plans = [
  plan("none"),
  plan("authorize", "keyHash", "ip", "mayBeUsedUp", "address"),
  plan("reserve", "rid", "keyHash", "ip", "model", "estimateNanos", "traceparent", "address"),
  plan("extend", "rid", "totalNanos", "leastNanos", "accountId"),
  plan("checkpoint", "rid", "costNanos", "record", "accountId"),
  plan("settle", "rid", "accountId", "keyId", "costNanos", "record", "isLeased", "leaseRid", "ip"),
  plan("release", "rid", "accountId", "keyHash", "calls"),
  plan("lookup", "rid", "accountId"),
  plan("endSession", "relaySession"),
  plan("restore", "rid", "accountId", "keyId", "heldNanos", "costNanos", "record", "holdSecret"),
  plan("lookupMany", "rids", "accountHashes"),
  plan("lease", "rid", "keyHash", "estimateNanos", "calls"),
  plan("draw", "rid", "leaseRid", "accountId", "keyId", "heldNanos", "ip", "holdSecret"),
  plan("lookupLeased", "rids", "accountId", "keyId"),
];

function readOperation(reader: WireReader): SessionOperation {
  const outerEnd = enterMessage(reader);
  let operation: SessionOperation | undefined;
  for (let tag = readTag(reader); tag !== 0; tag = readTag(reader)) {
    const known = (tag & 7) === 2 ? plans[tag >>> 3] : undefined;
    if (!known) {
      skip(reader, tag);
      continue;
    }
    const operationEnd = enterMessage(reader);
    operation = emptyOperation(known.name);
    for (let inner = readTag(reader); inner !== 0; inner = readTag(reader)) {
      readField(reader, inner, operation, known.fields[(inner >>> 3) - 1]);
    }
    leaveMessage(reader, operationEnd);
  }
  leaveMessage(reader, outerEnd);
  return operation ?? emptyOperation("none");
}

function readField(reader: WireReader, tag: number, operation: SessionOperation, field: WireField | undefined): void {
  if (field === undefined) return skip(reader, tag);
  const isVarint = field.type === "amount" || field.type === "flag";
  if ((tag & 7) !== (isVarint ? 0 : 2)) return skip(reader, tag);
  if (field.type === "amount") operation[field.name] = readInt64(reader);
  else if (field.type === "flag") operation[field.name] = readBool(reader);
  else if (field.type === "bytes") operation[field.name] = readBytes(reader);
  else operation[field.name] = readText(reader);
}

const writer = createWireWriter();

/** Encodes a SessionResponse, last field first. Field 5 says that this server supports LookupMany. */
export function encodeSessionResponse(response: SessionResponse): Buffer {
  const { batch, results, generation, isMaintenance, isStopping, timeMs, recalledLeases } = response;
  beginMessage(writer);
  for (let at = recalledLeases.length - 1; at >= 0; at -= 1) writePresentText(writer, 8, recalledLeases[at] ?? "");
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
  if (result.maySettleLeased) writeNumber(writer, 15, 1);
  if (result.isAddressRefused) writeNumber(writer, 14, 1);
  if (result.ipPerMinute) writeNumber(writer, 13, result.ipPerMinute);
  if (result.lastsMs) writeNumber(writer, 12, result.lastsMs);
  if (result.calls) writeNumber(writer, 11, result.calls);
  if (result.holdSecret) writeBytes(writer, 10, result.holdSecret);
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
