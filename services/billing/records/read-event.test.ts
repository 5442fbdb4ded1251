import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RecordKind } from "#proto/usage/v1/usage_pb.ts";
import { createRid } from "#shared/money/rid.ts";
import type { RejectReason } from "./check.ts";
import { readMessage } from "./read-event.ts";
import { encodeBatch, encodeEvent, makeEvent, type EventFields } from "../testing/events.ts";

const nowMs = Date.now();
const dayMs = 86_400_000;

/** A rid of a time that lies this many days ahead. */
function ridDaysAhead(days: number): string {
  const hex = (Math.floor(nowMs / dayMs) * dayMs + days * dayMs).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}${createRid().slice(13)}`;
}

test("an event that follows the contract is read as it came, with the day of its rid", () => {
  const event = makeEvent({ rid: ridDaysAhead(-3) });
  const bytes = encodeEvent(event);
  const { events, rejects } = readMessage(encodeBatch([bytes]), 7, nowMs);
  assert.deepEqual(rejects, []);
  assert.equal(events.length, 1);
  assert.equal(events[0]?.event.rid, event.rid);
  assert.deepEqual(Buffer.from(events[0]?.bytes ?? []), Buffer.from(bytes));
  assert.equal(events[0]?.day, new Date(nowMs - 3 * dayMs).toISOString().slice(0, 10));
  assert.equal(events[0]?.streamSequence, 7);
});

const broken: [string, RejectReason, EventFields][] = [
  ["a rid that is not a UUIDv7", "rid_invalid", { rid: "6ba7b810-9dad-41d1-80b4-00c04fd430c8" }],
  ["a rid in upper case", "rid_invalid", { rid: createRid().toUpperCase() }],
  ["no kind", "kind_unknown", { kind: RecordKind.UNSPECIFIED }],
  ["a kind of a later version", "kind_unknown", { kind: 9 as RecordKind }],
  ["no account", "account_invalid", { accountId: "" }],
  ["an account with odd letters", "account_invalid", { accountId: 'a","b' }],
  ["no key", "key_invalid", { keyId: "" }],
  ["a rid of 61 days ago", "day_out_of_range", { rid: ridDaysAhead(-61) }],
  ["a rid of the day after tomorrow", "day_out_of_range", { rid: ridDaysAhead(2) }],
  ["negative units", "units_negative", { usage: { inputTokens: -1n } }],
  ["a negative price", "units_negative", { unitPriceNanos: { inputTokens: -1n, outputTokens: 1n } }],
  ["a cost one nano too low", "cost_mismatch", { costNanos: 399n }],
  ["a negative cost", "cost_mismatch", { costNanos: -400n }],
  ["a used bucket without a price", "price_missing", { usage: { inputTokens: 100n, reasoningTokens: 1n } }],
  ["tokens for nothing: no prices at all, cost 0", "price_missing", { unitPriceNanos: {}, costNanos: 0n }],
  [
    "a cost above what an account may hold",
    "cost_out_of_range",
    {
      usage: { inputTokens: 2n ** 40n },
      unitPriceNanos: { inputTokens: 1_000_000n * 2n ** 20n },
      costNanos: 2n ** 60n,
    },
  ],
];

for (const [what, reason, given] of broken) {
  test(`an event with ${what} is not booked: ${reason}`, () => {
    const good = makeEvent();
    const bad = encodeEvent(makeEvent(given));
    const { events, rejects } = readMessage(encodeBatch([bad, encodeEvent(good)]), 1, nowMs);
    assert.deepEqual(
      rejects.map((reject) => reject.reason),
      [reason],
    );
    assert.deepEqual(Buffer.from(rejects[0]?.payload ?? []), Buffer.from(bad));
    assert.deepEqual(
      events.map(({ event }) => event.rid),
      [good.rid],
      "the rest of the message is not held up",
    );
  });
}

test("a call that used nothing costs nothing and is booked", () => {
  const event = makeEvent({ usage: {}, unitPriceNanos: {}, costNanos: 0n });
  assert.equal(readMessage(encodeBatch([encodeEvent(event)]), 1, nowMs).events.length, 1);
});

test("days from 60 back to 1 ahead are booked", () => {
  const events = [-60, 0, 1].map((days) => encodeEvent(makeEvent({ rid: ridDaysAhead(days) })));
  assert.equal(readMessage(encodeBatch(events), 1, nowMs).events.length, 3);
});

test("one damaged event does not take the others of its message with it", () => {
  const damaged = Uint8Array.of(0x0a, 0xff, 0x01);
  const good = encodeEvent(makeEvent());
  const { events, rejects } = readMessage(encodeBatch([good, damaged]), 1, nowMs);
  assert.equal(events.length, 1);
  assert.deepEqual(
    rejects.map(({ reason }) => reason),
    ["unreadable"],
  );
});

test("whatever bytes come, nothing is thrown and nothing vanishes", () => {
  assert.deepEqual(readMessage(new Uint8Array(), 1, nowMs), { events: [], rejects: [] });
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 200 }), (payload) => {
      const { events, rejects } = readMessage(payload, 1, nowMs);
      assert.ok(events.length + rejects.length > 0);
      for (const { hash } of rejects) assert.match(hash, /^[0-9a-f]{64}$/);
    }),
    { numRuns: 2_000 },
  );
});

test("a message that is cut anywhere yields its events or is kept whole", () => {
  const whole = encodeBatch([encodeEvent(makeEvent()), encodeEvent(makeEvent())]);
  for (let length = 1; length < whole.length; length += 1) {
    const { events, rejects } = readMessage(whole.subarray(0, length), 1, nowMs);
    const isWholeEvents = events.length > 0 && rejects.length === 0;
    const isKept = events.length === 0 && rejects.length === 1 && rejects[0]?.payload.length === length;
    assert.ok(isWholeEvents || isKept, `cut at ${length}`);
  }
});
