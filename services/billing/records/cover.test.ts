import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { coverOf, type Span } from "./cover.ts";

const at = (text: string): number => Date.parse(`2027-01-${text}Z`);
const span = (from: string, until: string): Span => ({ fromMs: at(from), untilMs: at(until) });

test("a time is whole days, whole hours beside them, and what is left at its ends", () => {
  assert.deepEqual(coverOf(span("01T22:30", "04T01:15")), {
    days: span("02T00:00", "04T00:00"),
    hours: [span("01T23:00", "02T00:00"), span("04T00:00", "04T01:00")],
    edges: [span("01T22:30", "01T23:00"), span("04T01:00", "04T01:15")],
    whole: span("01T23:00", "04T01:00"),
  });
  assert.deepEqual(coverOf(span("01T00:00", "03T00:00")), {
    days: span("01T00:00", "03T00:00"),
    hours: [],
    edges: [],
    whole: span("01T00:00", "03T00:00"),
  });
  assert.deepEqual(coverOf(span("01T10:10", "01T10:20")), {
    days: undefined,
    hours: [],
    edges: [span("01T10:10", "01T10:20")],
    whole: undefined,
  });
});

test("days end where their sums do, the hours go on", () => {
  assert.deepEqual(coverOf(span("01T00:00", "03T02:00"), at("02T00:00")), {
    days: span("01T00:00", "02T00:00"),
    hours: [span("02T00:00", "03T02:00")],
    edges: [],
    whole: span("01T00:00", "03T02:00"),
  });
});

test("the parts are the time, without a gap or an overlap", () => {
  const time = fc.integer({ min: 0, max: 10 * 86_400_000 });
  fc.assert(
    fc.property(time, time, time, (a, b, daysUntilMs) => {
      const whole = { fromMs: Math.min(a, b), untilMs: Math.max(a, b) };
      const { days, hours, edges } = coverOf(whole, Math.floor(daysUntilMs / 86_400_000) * 86_400_000);
      const parts = [...(days ? [days] : []), ...hours, ...edges].toSorted((one, other) => one.fromMs - other.fromMs);
      let reached = whole.fromMs;
      for (const { fromMs, untilMs } of parts) {
        assert.equal(fromMs, reached);
        assert.ok(untilMs > fromMs);
        reached = untilMs;
      }
      assert.equal(reached, whole.untilMs);
    }),
  );
});
