import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { UsageBatchSchema, UsageRecordedSchema } from "#proto/usage/v1/usage_pb.ts";
import { encodeUsageBatch } from "./usage-stream.ts";

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
