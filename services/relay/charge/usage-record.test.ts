import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { EndCause, ModelUsageSchema, RecordKind, UsageRecordedSchema, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import { withProof } from "#shared/money/hold-proof.ts";
import { usageBuckets } from "#shared/money/pricing.ts";
import type { OtherPart } from "./other-models.ts";
import { modelOf } from "../testing/fakes.ts";
import { encodeRecord, type CallRecord } from "./usage-record.ts";

const nanos = fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }));
const units = fc.dictionary(fc.constantFrom(...usageBuckets), nanos, { noNullPrototype: true });
const text = fc.oneof(fc.constant(""), fc.uuid(), fc.string({ unit: "binary", maxLength: 200 }));
const atMs = fc.integer({ min: 0, max: 4_000_000_000_000 });
const model = fc.record({ id: text, priceVersion: text, prices: units }).map((changes) => modelOf(changes));

const part = fc.record({ model, upstreamModel: text, usage: units, costNanos: nanos });

const records: fc.Arbitrary<CallRecord> = fc.record({
  rid: text,
  kind: fc.constantFrom(RecordKind.FINAL, RecordKind.PROVISIONAL),
  accountId: text,
  keyId: text,
  endpoint: text,
  model,
  modelServed: text,
  upstream: text,
  usage: units,
  costNanos: nanos,
  heldNanos: nanos,
  endCause: fc.constantFrom(EndCause.UNSPECIFIED, EndCause.COMPLETE, EndCause.DRAINED),
  usageSource: fc.constantFrom(UsageSource.PROVIDER, UsageSource.NONE),
  startedAtMs: atMs,
  firstByteAtMs: fc.option(atMs, { nil: undefined }),
  endedAtMs: atMs,
  httpStatus: fc.constantFrom(0, 200, 404, 529),
  streamed: fc.boolean(),
  relaySession: text,
  sequence: nanos,
  upstreamCostNanos: fc.option(nanos, { nil: undefined }),
  traceparent: text,
  otherModels: fc.array(part, { maxLength: 2 }),
  toldUsage: fc.option(units, { nil: undefined }),
  isLeased: fc.boolean(),
});

const asMessage = ({ model: { id, prices, priceVersion }, usage, costNanos }: OtherPart) =>
  create(ModelUsageSchema, { model: id, usage, unitPriceNanos: prices, priceVersion, costNanos });

const holdSecret = Buffer.alloc(16, 7);

test("a record has the bytes that protobuf-es gives it, behind what its model's records have in common", () => {
  fc.assert(
    fc.property(records, (record) => {
      const { model: priced, startedAtMs, firstByteAtMs, endedAtMs, upstreamCostNanos, ...more } = record;
      const { otherModels, toldUsage, ...same } = more;
      const { id: modelRequested, prices: unitPriceNanos, priceVersion } = priced;
      const common = create(UsageRecordedSchema, { modelRequested, unitPriceNanos, priceVersion });
      const own = create(UsageRecordedSchema, {
        ...same,
        startedAt: timestampFromMs(startedAtMs),
        ...(firstByteAtMs !== undefined && { firstByteAt: timestampFromMs(firstByteAtMs) }),
        endedAt: timestampFromMs(endedAtMs),
        ...(upstreamCostNanos !== undefined && { upstreamCostNanos }),
        ...(otherModels && { otherModels: otherModels.map(asMessage) }),
        ...(toldUsage && { toldUsage }),
      });
      const expected = [common, own].map((part) => toBinary(UsageRecordedSchema, part));
      const rest = Buffer.concat(expected);
      assert.deepEqual(new Uint8Array(encodeRecord(record, new Uint8Array())), new Uint8Array(rest));
      const proven = new Uint8Array(encodeRecord(record, holdSecret));
      assert.deepEqual(proven, new Uint8Array(withProof(holdSecret, rest)));
    }),
    { numRuns: 500 },
  );
});

test("every field of the event is one that a record can fill", () => {
  const record = fc.sample(records, { numRuns: 1, seed: 1 })[0] as CallRecord;
  const texts = { rid: "r", accountId: "a", keyId: "k", endpoint: "e", modelServed: "s", upstream: "u" };
  const numbers = { costNanos: 1n, heldNanos: 1n, httpStatus: 200, sequence: 1n, upstreamCostNanos: 0n };
  const names = { endCause: EndCause.COMPLETE, usageSource: UsageSource.NONE };
  const otherModels = [{ model: modelOf(), upstreamModel: "o", usage: {}, costNanos: 1n }];
  const rest = {
    otherModels,
    toldUsage: { requests: 1n },
    usage: { requests: 1n },
    traceparent: "t",
    relaySession: "p",
    firstByteAtMs: 1,
    streamed: true,
    isLeased: true,
  };
  const whole = encodeRecord({ ...record, ...texts, ...numbers, ...names, ...rest, model: modelOf() }, holdSecret);
  const event = fromBinary(UsageRecordedSchema, whole);
  for (const field of UsageRecordedSchema.fields) {
    const value = event[field.localName as keyof typeof event];
    assert.ok(value !== undefined && value !== "" && value !== 0 && value !== false, field.localName);
    if (field.localName !== "upstreamCostNanos") assert.notEqual(value, 0n, field.localName);
  }
});
