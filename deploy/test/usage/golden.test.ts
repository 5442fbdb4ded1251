import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  createFileRegistry,
  type DescMessage,
  fromBinary,
  fromJson,
  toBinary,
  toJson,
  type JsonObject,
  type JsonValue,
} from "@bufbuild/protobuf";
import { type FileDescriptorSet, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import {
  EndCauseSchema,
  UsageBatchSchema,
  UsageRecordedSchema,
  UsageSource,
  UsageSourceSchema,
} from "#proto/usage/v1/usage_pb.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { repository } from "../../tools/checks/run.ts";
import { encodeGolden, goldenBatches, goldenJson } from "./golden-events.ts";

const folder = join(repository, "proto/usage/golden");
const files = readdirSync(folder).toSorted();
const names = files.filter((file) => file.endsWith(".bin")).map((file) => file.slice(0, -4));
const binaryOf = (name: string): Buffer => readFileSync(join(folder, `${name}.bin`));
const jsonOf = (name: string): JsonValue => JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as JsonValue;
const released = fromBinary(FileDescriptorSetSchema, readFileSync(join(repository, "proto/released.binpb")));

function batchOf(image: FileDescriptorSet): DescMessage {
  const batch = createFileRegistry(image).getMessage(UsageBatchSchema.typeName);
  assert.ok(batch);
  return batch;
}

test("the golden messages are those that `npm run generate` makes", () => {
  const wanted = new Map<string, Buffer>();
  for (const batch of goldenBatches) {
    wanted.set(`${batch.name}.bin`, Buffer.from(encodeGolden(batch)));
    wanted.set(`${batch.name}.json`, Buffer.from(goldenJson(batch)));
  }
  assert.deepEqual(files, [...wanted.keys()].toSorted());
  for (const [file, bytes] of wanted) assert.ok(bytes.equals(readFileSync(join(folder, file))), file);
});

for (const name of names) {
  const hasUnknown = name === "newer-schema";

  test(`${name}: read, it is its JSON; written again, its bytes; its cost is the formula's`, () => {
    const bytes = binaryOf(name);
    const batch = fromBinary(UsageBatchSchema, bytes);
    assert.deepEqual(toJson(UsageBatchSchema, batch), jsonOf(name));
    assert.ok(bytes.equals(toBinary(UsageBatchSchema, batch)));
    const fromText = Buffer.from(toBinary(UsageBatchSchema, fromJson(UsageBatchSchema, jsonOf(name))));
    // JSON has no place for fields without a name.
    if (hasUnknown) assert.ok(fromText.length < bytes.length);
    else assert.ok(bytes.equals(fromText));
    for (const { usage, unitPriceNanos, costNanos: cost } of batch.events) {
      assert.ok(usage && unitPriceNanos);
      const known = costNanos(usage satisfies Units, unitPriceNanos satisfies Units);
      assert.equal(cost, hasUnknown ? known + 7_000n : known);
    }
  });

  test(`${name}: read by the released schema it is the same`, () => {
    const batch = batchOf(released);
    assert.deepEqual(toJson(batch, fromBinary(batch, binaryOf(name))), jsonOf(name));
  });

  test(`${name}: a consumer of an older schema reads all that it knows, and loses nothing when it writes`, () => {
    const batch = batchOf(olderThan(released));
    const read = fromBinary(batch, binaryOf(name));
    assert.deepEqual(toJson(batch, read), asSeenByOlder(jsonOf(name)));
    // The order of fields may be another one; what is in them may not.
    const again = fromBinary(UsageBatchSchema, toBinary(batch, read));
    assert.deepEqual(toJson(UsageBatchSchema, again), jsonOf(name));
  });
}

const newFields = ["upstream_cost_nanos", "traceparent"];
const newSource = "USAGE_SOURCE_REQUEST";

/** The released contracts as they were before the newest fields and the newest value came. */
function olderThan(image: FileDescriptorSet): FileDescriptorSet {
  const older = structuredClone(image);
  const usage = older.file.find(({ package: name }) => name === "usage.v1");
  const recorded = usage?.messageType.find(({ name }) => name === UsageRecordedSchema.name);
  const source = usage?.enumType.find(({ name }) => name === UsageSourceSchema.name);
  assert.ok(recorded && source);
  const before = [recorded.field.length, source.value.length];
  recorded.field = recorded.field.filter(({ name }) => !newFields.includes(name));
  recorded.oneofDecl = [];
  source.value = source.value.filter(({ name }) => name !== newSource);
  assert.deepEqual([recorded.field.length, source.value.length], [(before[0] ?? 0) - 2, (before[1] ?? 0) - 1]);
  return older;
}

function asSeenByOlder(json: JsonValue): JsonValue {
  const { events } = json as { events: JsonObject[] };
  return {
    events: events.map(({ upstreamCostNanos: _cost, traceparent: _trace, ...event }) =>
      event["usageSource"] === newSource ? { ...event, usageSource: UsageSource.REQUEST } : event,
    ),
  };
}

test("the golden messages show every kind, several endings and every source that are sent", () => {
  const events = goldenBatches.flatMap((batch) => batch.events);
  assert.deepEqual(new Set(events.map(({ kind }) => kind)), new Set([1, 2]));
  const sources = UsageSourceSchema.values.map(({ number }) => number).filter((number) => number > 0);
  const shown = new Set<number>(events.map(({ usageSource }) => usageSource));
  assert.deepEqual(
    sources.filter((source) => !shown.has(source)),
    [],
  );
  const knownCauses = new Set<number>(EndCauseSchema.values.map(({ number }) => number));
  assert.ok(
    events.some(({ endCause }) => !knownCauses.has(endCause)),
    "one that nobody knows yet",
  );
});
