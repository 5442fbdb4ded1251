import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { UsageBatchSchema, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { encodeUsageBatch, usageHeaders } from "./usage-stream.ts";

test("a batch is a CloudEvent in binary mode: all that the specification requires, and what its data is", () => {
  const made = usageHeaders("relay", "session-1:7", Date.parse("2026-11-20T10:00:00.123Z"));
  const attributes = Object.fromEntries(made.keys().map((name) => [name, made.get(name)]));
  assert.deepEqual(attributes, {
    "ce-specversion": "1.0",
    "ce-id": "session-1:7",
    "ce-source": "/relay",
    "ce-type": "usage.v1.recorded",
    "ce-time": "2026-11-20T10:00:00.123Z",
    "ce-dataschema": `https://type.googleapis.com/${UsageBatchSchema.typeName}`,
    "ce-datacontenttype": "application/protobuf",
  });
});

test("encodeUsageBatch equals the protobuf encoding of UsageBatch", () => {
  const records = fc.record({
    rid: fc.string(),
    endpoint: fc.string({ maxLength: 300 }),
    sequence: fc.bigInt(0n, 2n ** 62n),
  });
  fc.assert(
    fc.property(fc.array(records, { maxLength: 20 }), (inits) => {
      const events = inits.map((init) => create(UsageRecordedSchema, init));
      const encoded = encodeUsageBatch(events.map((event) => toBinary(UsageRecordedSchema, event)));
      assert.deepEqual(
        Buffer.from(encoded),
        Buffer.from(toBinary(UsageBatchSchema, create(UsageBatchSchema, { events }))),
      );
    }),
  );
  // Lengths around those at which the length itself takes another byte.
  for (const length of [0, 124, 125, 126, 16_379, 16_380, 16_381, 2_097_200]) {
    const event = create(UsageRecordedSchema, { rid: "x".repeat(length) });
    const encoded = encodeUsageBatch([toBinary(UsageRecordedSchema, event)]);
    const expected = toBinary(UsageBatchSchema, create(UsageBatchSchema, { events: [event] }));
    assert.ok(Buffer.from(expected).equals(encoded), `${length} bytes`);
  }
});
