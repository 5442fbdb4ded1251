import assert from "node:assert/strict";
import { test } from "node:test";
import { beginTimes, overheadsOf } from "./call-times.ts";

const none = { reserve: undefined, prepare: undefined, firstByte: undefined, settle: undefined, total: undefined };

// Received at 1,000; the caller took 5 s to send the body.
const asked = { ...beginTimes(1_000), readAt: 6_000, reservingAt: 6_003, reservedAt: 6_005, sentAt: 6_006 };

test("the caller's body and the upstream's time are none of the overhead", () => {
  // The upstream took 2 s for its head and 1 s more for the first piece; the caller did not read for minutes.
  const streamed = { ...asked, answeredAt: 8_006, arrivedAt: 9_006, firstByteAt: 9_007 };
  const ended = { ...streamed, upstreamEndedAt: 99_000, settlingAt: 99_000, settledAt: 99_002 };
  assert.deepEqual(overheadsOf(ended), { reserve: 2, prepare: 4, firstByte: 1, settle: 2, total: 7 });
});

test("of a whole answer, charging comes before its first byte", () => {
  const whole = { ...asked, answeredAt: 8_000, upstreamEndedAt: 9_000, arrivedAt: 9_000, settlingAt: 9_001 };
  const { firstByte, settle, total } = overheadsOf({ ...whole, settledAt: 9_003, firstByteAt: 9_004 });
  assert.deepEqual([firstByte, settle, total], [4, 2, 10]);
});

test("waiting for media and for upstreams that did not serve is none of it either", () => {
  const other = { ...asked, sentAt: 7_006, awaitedMs: 1_000, answeredAt: 8_000, arrivedAt: 8_000, firstByteAt: 8_001 };
  const { prepare, total } = overheadsOf(other);
  assert.deepEqual([prepare, total], [4, 7]);
});

test("there is nothing where a call did not come", () => {
  assert.deepEqual(overheadsOf(beginTimes(1_000)), none);
  assert.deepEqual(overheadsOf({ ...beginTimes(1_000), readAt: 2_000, reservingAt: 2_001 }), none);
  assert.deepEqual(overheadsOf(asked), { ...none, reserve: 2, prepare: 4 });
});
