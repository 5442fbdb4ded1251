import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Usage, type UsageRecorded, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageBuckets, type Units } from "#shared/money/pricing.ts";
import { readUsageRecord } from "./usage-record.ts";
import { makeEvent, type EventFields } from "../testing/events.ts";

const one = <T>(choices: readonly T[]): T => choices[Math.floor(Math.random() * choices.length)] as T;
const amounts = [
  0n,
  1n,
  127n,
  128n,
  400n,
  2n ** 31n,
  2n ** 32n,
  2n ** 53n - 1n,
  2n ** 53n,
  2n ** 63n - 1n,
  -1n,
  -(2n ** 60n),
];
const texts = ["", "a", "demo-chat", "ünï-cödé", "x".repeat(127), "y".repeat(128), "z".repeat(199), "z".repeat(200)];

const someUnits = (): Units =>
  Object.fromEntries(usageBuckets.filter(() => Math.random() < 0.2).map((b) => [b, one(amounts)]));

const randomRecord = (): UsageRecorded =>
  makeEvent({
    kind: one([0, 1, 2, 77]),
    ...(Math.random() < 0.5 && { accountId: one(texts), keyId: one(texts), endpoint: one(texts) }),
    ...(Math.random() < 0.5 && { modelRequested: one(texts), modelServed: one(texts), upstream: one(texts) }),
    ...(Math.random() < 0.5 && { priceVersion: one(texts), relaySession: one(texts), traceparent: one(texts) }),
    ...(Math.random() < 0.3 && { usage: one([undefined, someUnits()]), unitPriceNanos: one([undefined, someUnits()]) }),
    ...(Math.random() < 0.3 && { costNanos: one(amounts), heldNanos: one(amounts), sequence: one(amounts) }),
    ...(Math.random() < 0.5 && { upstreamCostNanos: one(amounts) }),
    ...(Math.random() < 0.2 && { toldUsage: someUnits() }),
    ...(Math.random() < 0.3 && {
      startedAt: undefined,
      firstByteAt: undefined,
      endedAt: timestampFromMs(one([0, 1_500, 9e12])),
    }),
    endCause: one([0, 1, 8, 99]),
    usageSource: one([0, 1, 5, 99]),
  } as EventFields);

const units = (message: Usage | undefined): Units | undefined =>
  message && Object.fromEntries(usageBuckets.filter((b) => message[b] !== 0n).map((b) => [b, message[b]]));

/** What is to be read, by the schema. */
function expected(bytes: Uint8Array): object {
  const message = fromBinary(UsageRecordedSchema, bytes);
  const {
    $typeName: _,
    $unknown: _unknown,
    endpoint,
    startedAt,
    firstByteAt,
    endedAt,
    httpStatus,
    streamed,
    otherModels,
    holdProof,
    ...rest
  } = message;
  assert.ok(endpoint !== undefined && httpStatus !== undefined && streamed !== undefined && [startedAt, firstByteAt]);
  assert.ok(otherModels && holdProof);
  const own = {
    upstreamCostNanos: undefined,
    ...rest,
    usage: units(rest.usage),
    unitPriceNanos: units(rest.unitPriceNanos),
    toldUsage: units(rest.toldUsage),
  };
  return { ...own, endedAtMs: endedAt && timestampMs(endedAt) };
}

/** What was read, without the fields that nobody asks for. */
function read(bytes: Uint8Array): object {
  const record = readUsageRecord(bytes);
  const names = Object.keys(expected(bytes));
  const given = Object.entries({ upstreamCostNanos: undefined, ...record }).filter(([name]) => names.includes(name));
  return Object.fromEntries(given);
}

test("a record is read as its schema reads it", () => {
  for (let round = 0; round < 3_000; round += 1) {
    const bytes = toBinary(UsageRecordedSchema, randomRecord());
    assert.deepEqual(read(bytes), expected(bytes));
  }
});

test("records that were joined, fields in another order, twice or unknown are read as the schema reads them", () => {
  const unknown = new BinaryWriter()
    .tag(900, WireType.LengthDelimited)
    .string("later")
    .tag(901, WireType.Varint)
    .int64(7)
    .finish();
  const mistyped = new BinaryWriter().tag(12, WireType.Bit64).fixed64(1n).finish();
  for (let round = 0; round < 500; round += 1) {
    const [first, second] = [randomRecord(), randomRecord()].map((record) => toBinary(UsageRecordedSchema, record));
    assert.ok(first && second);
    const more = toBinary(
      UsageRecordedSchema,
      create(UsageRecordedSchema, one([{ usage: someUnits() }, { unitPriceNanos: someUnits() }])),
    );
    for (const bytes of [
      Buffer.concat([first, second]),
      Buffer.concat([unknown, first, unknown]),
      Buffer.concat([more, first]),
    ]) {
      assert.deepEqual(read(bytes), expected(bytes));
    }
  }
  const odd = Buffer.concat([mistyped, toBinary(UsageRecordedSchema, makeEvent())]);
  assert.equal(
    isRefused(() => readUsageRecord(odd)),
    isRefused(() => fromBinary(UsageRecordedSchema, odd)),
  );
});

test("a field of the wrong kind is read or refused as by the schema, whichever field it is", () => {
  const good = toBinary(UsageRecordedSchema, makeEvent());
  for (const { number } of UsageRecordedSchema.fields) {
    for (const kind of [WireType.Varint, WireType.LengthDelimited, WireType.Bit64, WireType.Bit32]) {
      const tail = new BinaryWriter().tag(number, kind).finish();
      const bytes = Buffer.concat([good, tail, Buffer.from([200, 1])]);
      const refusals = [readUsageRecord, (odd: Buffer) => fromBinary(UsageRecordedSchema, odd)].map((decode) =>
        isRefused(() => decode(bytes)),
      );
      assert.equal(refusals[0], refusals[1], `field ${number} as ${kind}`);
    }
  }
});

test("a tag of more than 32 bits is refused as by the schema, though what is left of it would be one", () => {
  const good = toBinary(UsageRecordedSchema, makeEvent());
  const tags = [
    [0xc2, 0x81, 0x80, 0x80, 0x00],
    [0xc2, 0x81, 0x80, 0x80, 0x10],
    [0xc2, 0x81, 0x80, 0x80, 0x80, 0x00],
  ];
  const emptied = tags.map((tag) => Buffer.concat([good, Buffer.from([...tag, 0])]));
  assert.deepEqual(
    emptied.map((bytes) => isRefused(() => fromBinary(UsageRecordedSchema, bytes))),
    [false, true, true],
  );
  assert.deepEqual(
    emptied.map((bytes) => isRefused(() => readUsageRecord(bytes))),
    [false, true, true],
  );
});

function isRefused(work: () => unknown): boolean {
  try {
    work();
    return false;
  } catch {
    return true;
  }
}

test("bytes that the schema refuses are refused, and none else; what is read next is not touched by them", () => {
  const good = toBinary(UsageRecordedSchema, makeEvent({ endpoint: "/v1/chat" }));
  let refused = 0;
  for (let round = 0; round < 20_000; round += 1) {
    const bytes = Buffer.from(good).subarray(
      0,
      Math.random() < 0.3 ? Math.floor(Math.random() * good.length) : good.length,
    );
    const at = Math.floor(Math.random() * bytes.length);
    if (Math.random() < 0.8) bytes[at] = Math.floor(Math.random() * 256);
    const isBad = isRefused(() => fromBinary(UsageRecordedSchema, bytes));
    refused += Number(isBad);
    assert.equal(
      isRefused(() => readUsageRecord(bytes)),
      isBad,
      bytes.toString("hex"),
    );
    if (!isBad) assert.deepEqual(read(bytes), expected(bytes), bytes.toString("hex"));
    if (round % 10 === 0) assert.deepEqual(read(good), expected(good));
  }
  assert.ok(refused > 1_000);
});
