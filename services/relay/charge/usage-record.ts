import { create, toBinary } from "@bufbuild/protobuf";
import {
  ModelUsageSchema,
  UsageRecordedSchema,
  type EndCause,
  type RecordKind,
  type UsageSource,
} from "#proto/usage/v1/usage_pb.ts";
import { holdProof } from "#shared/money/hold-proof.ts";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import {
  beginMessage,
  closePart,
  createWireWriter,
  putBytes,
  takeMessage,
  writeBytes,
  writeInt64,
  writeNumber,
  writePresentInt64,
  writeText,
  writtenBytes,
  writtenMessage,
} from "#shared/protobuf/wire-writer.ts";
import type { Model } from "../catalog/models.ts";
import type { OtherPart } from "./other-models.ts";

/** What the relay says of a call in its usage.v1.UsageRecorded. */
export type CallRecord = {
  rid: string;
  kind: RecordKind;
  accountId: string;
  keyId: string;
  endpoint: string;
  /** As the caller named it, at the prices that hold for the call. */
  model: Model;
  modelServed: string;
  upstream: string;
  usage: Units;
  costNanos: bigint;
  heldNanos: bigint;
  endCause: EndCause;
  usageSource: UsageSource;
  startedAtMs: number;
  firstByteAtMs: number | undefined;
  endedAtMs: number;
  httpStatus: number;
  streamed: boolean;
  relaySession: string;
  sequence: bigint;
  upstreamCostNanos: bigint | undefined;
  traceparent: string;
  /** Parts that other models ran; few calls have any. */
  otherModels?: readonly OtherPart[];
  /** Counts of the provider that cannot be, where `usage` has what is possible. */
  toldUsage: Units | undefined;
  /** Whether it is told to auth-quota as the charge of a call within a lease. */
  isLeased: boolean;
};

const writer = createWireWriter();

/**
 * Encodes a record by hand, because one is made of every call. The fields of its model stand in front; protobuf reads
 * fields in any order. Its proof stands before them.
 */
export function encodeRecord(record: CallRecord, holdSecret: Uint8Array): Buffer {
  const { upstreamCostNanos, firstByteAtMs } = record;
  beginMessage(writer);
  writeNumber(writer, 28, record.isLeased ? 1 : 0);
  if (record.toldUsage) writeUsage(26, record.toldUsage);
  for (const part of record.otherModels?.toReversed() ?? []) writeBytes(writer, 25, encodePart(part));
  writeText(writer, 24, record.traceparent);
  if (upstreamCostNanos !== undefined) writePresentInt64(writer, 23, upstreamCostNanos);
  writeInt64(writer, 22, record.sequence);
  writeText(writer, 21, record.relaySession);
  writeNumber(writer, 20, record.streamed ? 1 : 0);
  writeNumber(writer, 19, record.httpStatus);
  writeTime(18, record.endedAtMs);
  if (firstByteAtMs !== undefined) writeTime(17, firstByteAtMs);
  writeTime(16, record.startedAtMs);
  writeNumber(writer, 15, record.usageSource);
  writeNumber(writer, 14, record.endCause);
  writeInt64(writer, 13, record.heldNanos);
  writeInt64(writer, 12, record.costNanos);
  writeUsage(9, record.usage);
  writeText(writer, 8, record.upstream);
  writeText(writer, 7, record.modelServed);
  writeText(writer, 5, record.endpoint);
  writeText(writer, 4, record.keyId);
  writeText(writer, 3, record.accountId);
  writeNumber(writer, 2, record.kind);
  writeText(writer, 1, record.rid);
  putBytes(writer, modelPart(record.model));
  if (holdSecret.length > 0) writeBytes(writer, 27, holdProof(holdSecret, writtenMessage(writer)));
  return takeMessage(writer);
}

function encodePart({ model, usage, costNanos }: OtherPart): Uint8Array {
  const { id, prices: unitPriceNanos, priceVersion } = model;
  return toBinary(
    ModelUsageSchema,
    create(ModelUsageSchema, { model: id, usage, unitPriceNanos, priceVersion, costNanos }),
  );
}

/** A google.protobuf.Timestamp. */
function writeTime(field: number, atMs: number): void {
  const before = writtenBytes(writer);
  const seconds = Math.floor(atMs / 1_000);
  writeNumber(writer, 2, (atMs - seconds * 1_000) * 1_000_000);
  writeNumber(writer, 1, seconds);
  closePart(writer, field, before);
}

function writeUsage(field: number, usage: Units): void {
  const before = writtenBytes(writer);
  // The buckets are the fields of the message, in their order.
  for (let index = usageBuckets.length; index > 0; index -= 1) {
    const units = usage[usageBuckets[index - 1] as (typeof usageBuckets)[number]];
    if (units !== undefined) writeInt64(writer, index, units);
  }
  closePart(writer, field, before);
}

const modelParts = new WeakMap<Model, Uint8Array>();

/**
 * What every record of a model has in common, encoded once: its prices alone are more work than the rest of a record.
 */
function modelPart(model: Model): Uint8Array {
  let part = modelParts.get(model);
  if (!part) {
    const { id: modelRequested, prices: unitPriceNanos, priceVersion } = model;
    const fields = create(UsageRecordedSchema, { modelRequested, unitPriceNanos, priceVersion });
    modelParts.set(model, (part = toBinary(UsageRecordedSchema, fields)));
  }
  return part;
}
