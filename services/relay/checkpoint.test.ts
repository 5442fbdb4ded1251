import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { UsageRecordedSchema, type UsageRecorded } from "#proto/usage/v1/usage_pb.ts";
import { checkpointOf } from "./checkpoint.ts";
import type { LiveCall } from "./live-call.ts";
import { checkpointRecord } from "./settle.ts";
import { liveCallOf } from "./testing/fakes.ts";

const read = (record: Uint8Array): UsageRecorded => fromBinary(UsageRecordedSchema, record);
const withoutTime = (record: Uint8Array): UsageRecorded => Object.assign(read(record), { endedAt: undefined });

function runningCall(): LiveCall {
  const call = liveCallOf({});
  Object.assign(call.tally, { hasContent: true, contentTokens: 7 });
  return call;
}

test("the checkpoint of a call that stands still tells the same again, and the new time", () => {
  const call = runningCall();
  const first = checkpointOf(call);
  for (const nowMs of [1_900_000_000_000, 1_900_000_000_999, 1_900_000_001_000, 2_000_000_000_123]) {
    const again = checkpointOf(call, nowMs);
    assert.equal(again.costNanos, first.costNanos);
    assert.deepEqual(withoutTime(again.record), withoutTime(first.record));
    const { endedAt } = read(again.record);
    assert.equal(endedAt && timestampMs(endedAt), nowMs);
    assert.ok(again.record.length < first.record.length + 20, "times do not gather");
  }
});

const changes: [string, (call: LiveCall) => void][] = [
  ["text", ({ tally }) => (tally.contentTokens += 0.25)],
  ["usage", ({ tally }) => (tally.usage = { inputTokens: 3n, outputTokens: 4n })],
  ["the input's count", ({ tally }) => (tally.inputUsage = { inputTokens: 5n })],
  ["the model served", ({ tally }) => (tally.modelServed = "other")],
  ["images", ({ tally }) => (tally.counted.images = (tally.counted.images ?? 0n) + 1n)],
  ["the hold", (call) => (call.heldNanos += 1n)],
];

for (const [what, change] of changes) {
  test(`a checkpoint tells what has changed since the last one: ${what}`, () => {
    const call = runningCall();
    for (let times = 0; times < 3; times += 1) {
      checkpointOf(call);
      change(call);
      const { costNanos, record } = checkpointOf(call);
      const whole = checkpointRecord(call);
      assert.equal(costNanos, whole.costNanos);
      assert.deepEqual(withoutTime(record), withoutTime(whole.record));
    }
  });
}
